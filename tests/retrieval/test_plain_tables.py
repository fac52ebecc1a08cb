import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lexlip.indexing import journal
from lexlip.retrieval.plain_tables import SCHEMA, UNREADABLE, connect

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


@pytest.mark.parametrize("schema", [SCHEMA + UNREADABLE, journal._SCHEMA + "COMMIT;"])
def test_own_tables_are_plain(tmp_path: Path, schema: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x")) as connection:
        connection.executescript(schema)
        connection.execute("ALTER TABLE photos ADD COLUMN added TEXT NOT NULL DEFAULT ''")
    with closing(connect(tmp_path / "x")) as opened:
        assert opened.ask("SELECT count(*) FROM photos WHERE added != ?", ("a",)) == [(0,)]


@pytest.mark.parametrize(
    "program",
    [
        f"CREATE VIEW photos AS {ENDLESS}",
        "CREATE TABLE photos (id TEXT); CREATE TRIGGER t AFTER INSERT ON photos BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE photos USING fts5 (id)",
        "CREATE TABLE photos (id TEXT, x AS (hex(zeroblob(1e9))))",
        "CREATE TABLE photos (id TEXT DEFAULT (hex(randomblob(9))))",
        "CREATE TABLE photos (id TEXT CHECK (length(id) < 9))",
        "CREATE TABLE photos (id TEXT); CREATE INDEX x ON photos (length(id)) WHERE id IS NOT NULL",
        "CREATE TABLE photos (id TEXT); CREATE INDEX x ON photos (id) WHERE length(id) IS NOT NULL",
        "CREATE TABLE photos (id TEXT /* -- */ CHECK (length(id) < 9) /*\n*/)",
        'CREATE TABLE "--\n" (id TEXT)',
        "CREATE TABLE photos (id TEXT) STRICT",
    ],
)
def test_programs_are_refused(tmp_path: Path, program: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x")) as connection:
        connection.executescript(program)
    with pytest.raises(sqlite3.DatabaseError, match="is no plain table"):
        connect(tmp_path / "x")


def test_an_endless_question_ends(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "x")) as opened:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            opened.ask(f"SELECT count(*) FROM ({ENDLESS})")
        assert opened.ask("SELECT 1") == [(1,)]
