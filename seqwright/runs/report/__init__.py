"""report.html: a run folder as one self-contained page."""

from seqwright.runs.report.page import write_report as write_report
