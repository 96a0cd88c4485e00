"""Settings: composed from conf/ and params.yaml, checked, and handed out one file a stage."""
