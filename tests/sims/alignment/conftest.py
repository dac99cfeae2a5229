"""Tiny adapted models, built from configurations."""

import hashlib

import pytest

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
TARGETS = {
    "bert": ["query", "key", "value", "output.dense"],
    "gpt2": ["c_attn", "c_proj"],
    "llama": ["q_proj", "v_proj", "down_proj"],
}


class Adapted:
    """Builders and oracles; the same seed gives the same base model."""

    def __init__(self, torch, transformers, peft):
        self.torch, self.transformers, self.peft = torch, transformers, peft

    def base(self, kind="bert"):
        t = self.transformers
        model, config, sizes = {
            "bert": (t.BertForSequenceClassification, t.BertConfig, SIZES),
            "gpt2": (
                t.GPT2ForSequenceClassification,
                t.GPT2Config,
                {"n_layer": 2, "n_head": 4, "n_embd": 32},
            ),
            "llama": (t.LlamaForSequenceClassification, t.LlamaConfig, SIZES | {"num_key_value_heads": 2}),
        }[kind]
        self.torch.manual_seed(0)
        return model(
            config(vocab_size=50, num_labels=3, pad_token_id=0, attn_implementation="eager", **sizes)
        )

    def lora(self, kind="bert", base=None, seed=1, **more):
        base = self.base(kind) if base is None else base
        self.torch.manual_seed(seed)
        options = {"r": 4, "target_modules": TARGETS[kind], "task_type": "SEQ_CLS"} | more
        if kind == "gpt2":
            options |= {"fan_in_fan_out": True}
        return self.peft.get_peft_model(base, self.peft.LoraConfig(**options))

    def batches(self, count=3, size=8, length=7, same_first=False):
        g = self.torch.Generator().manual_seed(5)
        ids = self.torch.randint(1, 50, (count, size, length), generator=g)
        labels = self.torch.randint(0, 3, (count, size), generator=g)
        if same_first:
            ids[:, :, 0] = 7
        return [{"input_ids": i, "labels": y} for i, y in zip(ids, labels, strict=True)]

    def linear(self, d=6, m=5, r=3, seed=0, head=None, **more):
        """One linear layer in float64, with a frozen head of so many classes."""
        nn = self.torch.nn
        self.torch.manual_seed(seed)
        parts = [nn.Linear(d, m, bias=False)] + ([] if head is None else [nn.Linear(m, head)])
        config = self.peft.LoraConfig(r=r, lora_alpha=2 * r, target_modules=["0"], **more)
        return self.peft.get_peft_model(nn.Sequential(*parts), config).double()

    def factors(self, model, adapter="default"):
        """All pairs (A, B) of an adapter, by module."""
        return {
            name: (module.lora_A[adapter].weight, module.lora_B[adapter].weight)
            for name, module in model.named_modules()
            if adapter in getattr(module, "lora_A", {})
        }

    def products(self, model):
        return {n: (b @ a).detach().double().numpy() for n, (a, b) in self.factors(model).items()}

    def checksum(self, model, base_only=False):
        """Hash of all parameters and buffers, or of those that are no adapter's."""
        digest = hashlib.sha256()
        for name, value in sorted(model.state_dict().items()):
            name = name.replace("base_model.model.", "").replace(".base_layer", "")
            name = name.replace(".original_module", "")
            if not (base_only and ("lora_" in name or "modules_to_save" in name)):
                digest.update(
                    name.encode() + value.detach().cpu().contiguous().view(self.torch.uint8).numpy().tobytes()
                )
        return digest.hexdigest()

    def logits(self, model, batches):
        mode = model.training
        model.eval()
        with self.torch.no_grad():
            found = self.torch.cat([model(input_ids=b["input_ids"]).logits for b in batches])
        model.train(mode)
        return found.double().numpy()

    def train(self, model, batches, optimizer, steps=5):
        model.eval()  # no dropout
        for k in range(steps):
            model(**batches[k % len(batches)]).loss.backward()
            optimizer.step()
            optimizer.zero_grad()


@pytest.fixture
def adapted(needs):
    return Adapted(needs("torch"), needs("transformers"), needs("peft"))
