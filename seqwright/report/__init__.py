"""A run for people: report.html, a page that needs no network, and README.md, the model card."""

from seqwright.report.card import write_card as write_card
from seqwright.report.page import write_report as write_report
