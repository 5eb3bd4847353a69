"""Networks of forecasters: from past values to vectors. One file each; the file name is the key."""
