"""`seqwright serve`: trained models behind HTTP and on a page. Needs the extra `serve`."""
