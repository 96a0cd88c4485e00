"""One module a stage: read what stands in the files, call the studies, write what comes out."""
