#!/bin/sh
# Compiles the Java classes that ship with the package:  build.sh ANSERINI_JAR OUTPUT [JAVAC]
# Without debug information every javac from 17 on writes the same bytes.
# javac 17 to 20 need the jar of pyserini 1.6.0; the classes then run on Lucene 9 and on Lucene 10.
set -eu
exec "${3:-javac}" --release 17 -g:none -proc:none -Xlint:all,-classfile,-options,-path \
    -cp "$1" -d "$2" "$(dirname "$0")"/impact/*.java
