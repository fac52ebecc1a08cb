#!/bin/sh
# Compiles the Java sources into the jar that ships with the package:
#     build.sh LUCENE_JAR OUTPUT.jar [JAVAC]
# The jar that ships is built by javac 17 with Lucene 9 (lucene-core 9.12.3, or the jar of pyserini 1.6.0); it runs on
# Lucene 10 too.
# The same sources always give the same bytes: sorted entries, fixed dates, no manifest, no compression.
set -eu
javac=$(readlink -f "$(command -v "${3:-javac}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$javac" --release 17 -g:none -proc:none -Xlint:all,-classfile,-options,-path \
    -cp "$1" -d "$work/classes" "$(dirname "$0")"/impact/*.java
export LC_ALL=C # the order in which the shell lists files
(cd "$work/classes" && "$(dirname "$javac")/jar" --create --file "$work/impact.jar" \
    --no-manifest --no-compress --date=1980-02-01T00:00:00Z impact/*.class)
mv "$work/impact.jar" "$2"
