"""Curves as CSV and as a picture."""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree

import pytest

from hudtui.core.errors import InputError
from hudtui.core.training.axes import x_ticks
from hudtui.core.training.curve_files import charts_of, check_name, curve_file
from hudtui.core.training.metrics import MetricsReader

SVG = "{http://www.w3.org/2000/svg}"


def reader(steps: range, **more: float) -> MetricsReader:
    found = MetricsReader()
    for step in steps:
        found.add({"step": step, "time": 1.7e9 + step, "train/reward": step / 4, **more})
    return found


def test_numbers_are_lines_of_a_table() -> None:
    runs = {"one": reader(range(1, 4), extra=0.1), "two, three": reader(range(2, 5))}
    rows = list(csv.reader(io.StringIO(curve_file(charts_of(runs), "curves.csv"))))
    assert rows[0] == ["run", "step", "time", "train/reward", "extra"]
    assert rows[1] == ["one", "1", "1700000001.0", "0.25", "0.1"]
    assert rows[-1] == ["two, three", "4", "1700000004.0", "1.0", ""]
    assert len(rows) == 7


def test_a_picture_has_each_chart_with_both_axes() -> None:
    runs = {"one": reader(range(1, 40), **{"<b>&odd": 1.0}), "two": reader(range(20, 60))}
    root = ElementTree.fromstring(curve_file(charts_of(runs), "CURVES.SVG"))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"reward", "<b>&odd", "one", "two"} <= set(words)
    first = root.findall(f"{SVG}g")[0]
    assert len(first.findall(f"{SVG}polyline")) == 2
    labels = [text.text for text in first.iter(f"{SVG}text")]
    assert labels[1:6] == ["0", "4", "8", "12", "16"] and labels[6:] == ["1", "20", "40", "59"]
    colours = {line.get("stroke") for line in first.findall(f"{SVG}polyline")}
    assert len(colours) == 2


def test_a_single_value_and_one_that_does_not_move_are_drawn() -> None:
    text = curve_file(charts_of({"one": reader(range(1, 2), flat=3.0)}), "x.svg")
    assert len(re.findall("<polyline", text)) == 2 and "nan" not in text


def test_names_of_others_harm_no_reader() -> None:
    found = MetricsReader()
    found.feed(
        b'{"step": 1, "\\ud800": 2, "\\ufffe": 3, "=cmd()": 1, "x": 1e299, "y\\u001b[31m": 2}\n'
    )
    found.feed(b'{"step": 2, "x": -1e299}\n')
    charts = charts_of({"r\ud800": found})
    root = ElementTree.fromstring(curve_file(charts, "a.svg").encode())
    assert len(root.findall(f"{SVG}g")) == 5
    head = curve_file(charts, "a.csv").encode().decode().splitlines()[0]
    assert ",'=cmd()," in head and "\x1b" not in head


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(InputError, match=r"ends neither in \.csv nor in \.svg"):
        check_name("curves.png")
    with pytest.raises(InputError, match="there are no numbers"):
        curve_file(charts_of({"one": MetricsReader()}), "x.csv")


def test_ticks_of_steps_are_round() -> None:
    assert x_ticks(1, 59) == [1, 20, 40, 59]
    assert x_ticks(0, 3) == [0, 1, 2, 3]
    assert x_ticks(5, 5) == [5]
    assert x_ticks(0.0, 0.5)[-1] == 0.5
