#!/bin/sh
# Compiles the Java classes that ship with the package:  build.sh ANSERINI_JAR OUTPUT [JAVAC]
# What ships is built by javac 17 with the jar of pyserini 1.6.0 (Lucene 9), and runs on Lucene 10 too.
set -eu
exec "${3:-javac}" --release 17 -g:none -proc:none -Xlint:all,-classfile,-options,-path \
    -cp "$1" -d "$2" "$(dirname "$0")"/impact/*.java
