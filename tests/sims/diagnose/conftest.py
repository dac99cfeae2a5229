"""Tiny models of three kinds, and batches of rows of different length."""

import pytest

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}


class World:
    """Builders; the same arguments give the same model and the same data."""

    def __init__(self, torch, transformers):
        self.torch, self.transformers = torch, transformers

    def model(self, kind="bert", attention="eager", **more):
        t = self.transformers
        model, config, sizes = {
            "bert": (t.BertModel, t.BertConfig, SIZES),
            "gpt2": (t.GPT2Model, t.GPT2Config, {"n_layer": 2, "n_head": 4, "n_embd": 32}),
            "llama": (t.LlamaModel, t.LlamaConfig, SIZES | {"num_key_value_heads": 2}),
        }[kind]
        self.torch.manual_seed(0)
        made = model(config(vocab_size=50, attn_implementation=attention, pad_token_id=0, **sizes, **more))
        with self.torch.no_grad():  # sharper attention than a fresh model has, so that heads differ
            for name, weight in made.named_parameters():
                if weight.ndim == 2 and "embed" not in name:
                    weight.mul_(8)
        return made.eval()

    def batches(self, count=3, size=8, side="right", labels=True, lengths=(7, 14), first=1, seed=5):
        g = self.torch.Generator().manual_seed(seed)
        made = []
        for _ in range(count):
            own = self.torch.randint(*lengths, (size,), generator=g)
            width = int(own.max())
            place = self.torch.arange(width)
            real = place < own[:, None] if side == "right" else place >= width - own[:, None]
            ids = self.torch.randint(first, 50, (size, width), generator=g) * real
            y = self.torch.randint(0, 3, (size,), generator=g)
            ids = self.torch.where(real & (place % 3 == 0), 1 + y[:, None], ids)  # the class is in the text
            made.append({"input_ids": ids, "attention_mask": real.long()} | ({"labels": y} if labels else {}))
        return made


@pytest.fixture
def world(needs):
    return World(needs("torch"), needs("transformers"))


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.fixture
def state():
    """Everything about a model that a pass could leave changed."""

    def look(model):
        configs = [m.config for m in model.modules() if hasattr(m, "config")]
        return (
            hooks(model),
            [m.training for m in model.modules()],
            [dict(vars(c)) for c in configs if hasattr(c, "__dict__")],
            [p.detach().double().numpy().tobytes() for p in model.parameters()],
            [p.requires_grad for p in model.parameters()],
        )

    return look
