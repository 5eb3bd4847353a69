"""A run for people page for people: report.html, which needs no network."""

from seqwright.runs.report.page import write_report as write_report
