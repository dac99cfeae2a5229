"""The pivot in a real Trainer: one added line, once, also where a run resumes."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

from porism.sims.alignment.callback import __all__ as names
from porism.sims.alignment.init import init_pivot_lora

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


def test_importing_loads_no_transformers():
    code = (
        "import sys; import porism.sims.alignment.callback, porism.sims.alignment.pivot, "
        "porism.sims.alignment.init; assert not {'torch', 'transformers', 'peft'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def callback(adapted):
    assert names == ["PivotCallback"]
    from porism.sims.alignment import callback

    return callback.PivotCallback


class Rows:
    """A data set of dicts."""

    def __init__(self, batches):
        self.rows = [
            {"input_ids": i, "labels": y}
            for b in batches
            for i, y in zip(b["input_ids"], b["labels"], strict=True)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@pytest.fixture
def trainer(adapted, tmp_path):
    def make(callbacks, optim="sgd", steps=6, start=True, **more):
        model, batches = adapted.lora(), adapted.batches()
        for module in model.modules():
            if isinstance(module, adapted.torch.nn.Dropout):
                module.p = 0.0
        if start:
            init_pivot_lora(model, batches)
        arguments = adapted.transformers.TrainingArguments(
            output_dir=str(tmp_path / "run"),
            max_steps=steps,
            per_device_train_batch_size=8,
            learning_rate=0.1 if optim == "sgd" else 1e-2,
            lr_scheduler_type="constant",
            optim=optim,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
            **({"save_strategy": "no"} | more),
        )
        return adapted.transformers.Trainer(
            model=model, args=arguments, train_dataset=Rows(batches), callbacks=callbacks
        )

    return make


def test_one_line_in_a_trainer(adapted, trainer, callback, capsys):
    plain = trainer([])
    plain.train()
    line = callback(at=0.5)
    turned = trainer([line])
    turned.train()
    assert line.done
    (report,) = line.reports
    assert (report.optimizer, report.n_layers) == ("sgd", 10)
    expected, found = adapted.products(plain.model), adapted.products(turned.model)
    for name, product in found.items():  # descent does not notice: float32 rounding over three steps
        assert np.abs(product - expected[name]).max() < 1e-5 * np.abs(expected[name]).max()
    entries = [e for e in turned.state.log_history if "pivot_layers" in e]
    assert [e["step"] for e in entries] == [3]
    moved = max(
        np.abs((a - adapted.factors(plain.model)[n][0]).detach().numpy()).max()
        for n, (a, _) in adapted.factors(turned.model).items()
    )
    assert moved > 0.1


def test_adam_moves_its_averages_through_accelerate(adapted, trainer, callback):
    line = callback(at=2, rotation="random")
    run = trainer([line], optim="adamw_torch", steps=3)
    run.train()
    assert line.reports[0].optimizer == "adam"
    assert line.reports[0].moments == "transport"
    assert type(run.optimizer).__name__ == "AcceleratedOptimizer"


@pytest.mark.parametrize("restore", [False, True])
def test_a_resumed_run_does_not_pivot_twice(adapted, trainer, callback, tmp_path, restore):
    whole = trainer([callback(at=0.34)], optim="adamw_torch", save_strategy="steps", save_steps=2)
    whole.train()
    expected = adapted.products(whole.model)
    line = callback(at=0.34)  # step 2: the checkpoint is written right after the pivot
    again = trainer([line], optim="adamw_torch", start=False, restore_callback_states_from_checkpoint=restore)
    again.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert line.reports == []
    for name, product in adapted.products(again.model).items():
        np.testing.assert_allclose(product, expected[name], atol=1e-6)
    # a longer run, whose share is a later step, knows that it has pivoted
    line = callback(at=0.34)
    longer = trainer([line], optim="adamw_torch", steps=9, start=False)
    longer.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert line.reports == []
    assert line.done


def test_resuming_a_run_that_had_no_callback(adapted, trainer, callback, tmp_path):
    trainer([], save_strategy="steps", save_steps=2, steps=2).train()
    line = callback(at=3)
    run = trainer([line], steps=4, start=False, save_strategy="steps", save_steps=4)
    run.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert len(line.reports) == 1
    state = json.loads((tmp_path / "run" / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["stateful_callbacks"]["PivotCallback"]["attributes"] == {"done": True}
    late = callback(at=1)
    with pytest.warns(UserWarning, match="no pivot will take place: at=1 is step 1"):
        trainer([late], steps=3, start=False).train(
            resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2")
        )
    assert late.reports == []


def test_a_new_run_pivots_anew_and_more_often_where_asked(adapted, trainer, callback):
    line = callback(at=2, once=False)
    run = trainer([line], steps=4)
    run.train()
    assert len(line.reports) == 2
    once = callback(at=1)
    run = trainer([once], steps=2)
    run.train()
    run.train()
    assert len(once.reports) == 2


def test_refusals_come_when_training_begins(adapted, trainer, callback):
    run = trainer([callback(at=3)], optim="adafactor")
    before = adapted.checksum(run.model)
    with pytest.raises(TypeError, match="must be torch's Adam, AdamW or SGD, got Adafactor"):
        run.train()
    assert adapted.checksum(run.model) == before
    line = callback(at=1, moments="keep")
    trainer([line], optim="adafactor", steps=1).train()
    assert len(line.reports) == 1


def test_arguments(callback):
    for bad in (True, "0.1"):
        with pytest.raises(TypeError, match="at must be an int"):
            callback(at=bad)
    for bad in (0, 1.0, 0.0, -3):
        with pytest.raises(ValueError, match="at must be"):
            callback(at=bad)
    with pytest.raises(TypeError, match="reseed_idle must be a bool here"):
        callback(reseed_idle={})
    for share in (0.1, np.float32(0.1)):
        assert [callback(at=share).step(n) for n in (4, 100, 1234)] == [1, 10, 123]
    line = callback(at=7, rotation=np.eye(2), random_state=3)
    state = json.loads(json.dumps(line.state()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = callback.from_state(state)
    assert (again.at, again.random_state, again.done) == (7, 3, False)
    np.testing.assert_array_equal(again.rotation, np.eye(2))
