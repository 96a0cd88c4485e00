"""The peers' own CPU a coalition with a model that answers at once, in their Python 3.12.

    python peers_overhead.py        # prints {"name": milliseconds, ...} as JSON

All 1,024 coalitions of ten words, tf-idf scores included. llmSHAP keeps nothing on disk, mllm-shap
runs its whole pipeline with its archive.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import tempfile
import time
from pathlib import Path

WORDS = "What is the capital of all land west of Spain"
N_COALITIONS = 1024


def llmshap() -> None:
    """Full enumeration with llmSHAP's own instant model and its cache."""
    from llmSHAP import BasicPromptCodec, DataHandler, ShapleyAttribution
    from llmSHAP.llm.dummy import DummyLLM

    ShapleyAttribution(
        model=DummyLLM(model_name="none", sleep_seconds=0.0),
        data_handler=DataHandler(WORDS),
        prompt_codec=BasicPromptCodec(system=""),
        use_cache=True,
        verbose=False,
        num_threads=16,
    ).attribution()


def mllm_shap(folder: Path) -> None:
    """The exact estimator of mllm-shap on its mock backend, its archive included."""
    from mllm_shap import ConversationSnapshot, ExplainRunner
    from mllm_shap.pipeline.config import explain_config_from_yaml

    config = explain_config_from_yaml(f"""
backend: {{kind: mock, model_id: mock}}
explanation:
  estimator: exact
  budget: {{fraction: 1.0}}
  max_inflight: 16
  archive: {{path: "{folder}/{{run_id}}", on_exists: overwrite}}
""")
    turn = {"messages": [{"role": "user", "text": WORDS}]}
    with ExplainRunner(config) as runner:
        runner.explain_sync(ConversationSnapshot.from_json(json.dumps({"turns": [turn]})))


def cpu_ms(call: object, *args: object) -> float:
    """CPU milliseconds a coalition, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            call(*args)  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    return best * 1e3 / N_COALITIONS


def main() -> None:
    """Prints the milliseconds."""
    version = importlib.metadata.version
    found = {f"llmSHAP {version('llmSHAP')}, in memory": cpu_ms(llmshap)}
    with tempfile.TemporaryDirectory() as folder:
        name = f"mllm-shap {version('mllm-shap')}, whole pipeline with archive"
        found[name] = cpu_ms(mllm_shap, Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
