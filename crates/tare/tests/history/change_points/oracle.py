"""Change points by Apache Otava.

Reads series from standard input, a JSON list of lists, and appends the metrics of the CSV file that is the argument.
Writes the series, and for each the points that Otava finds with two of its steps mended:

- Its t-test takes the deviation of a population (divided by n) where that of a sample (divided by n - 1) belongs.
- When it drops a point, it computes the next two points again, but not the one before, whose right side has changed,
  too.
"""
import csv
import json
import sys

import numpy
from otava import analysis

P_MAX = 0.001
WINDOW = 50


def mended(series):
    """Otava's own weak points, of which the least significant one is dropped until all are significant."""
    tester = analysis.TTestSignificanceTester(P_MAX)
    points = analysis.split(list(series), WINDOW, 10 * P_MAX)
    while points:
        intervals = tester.get_intervals(points)
        points = [tester.change_point(p.to_candidate(), series, intervals) for p in points]
        weakest = max(points, key=lambda p: p.stats.pvalue)
        if weakest.stats.pvalue < P_MAX:
            break
        points.remove(weakest)
    return [int(point.index) for point in points]


all_series = json.load(sys.stdin)
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
for column in rows[0]:
    try:
        all_series.append([float(row[column]) for row in rows])
    except ValueError:
        pass  # no metric
population = numpy.std
numpy.std = lambda values: population(values, ddof=1)
json.dump({"series": all_series, "mended": [mended(s) for s in all_series]}, sys.stdout)
