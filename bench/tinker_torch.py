"""The update of bench/tinker-throughput.ts once more, in PyTorch: transformers' model, LoRA by hand, the loss by autograd.

  python bench/tinker_torch.py MODEL DUMP [DTYPE]

MODEL: the folder that the training server loaded. DUMP: the folder of `--dump`. DTYPE: float32 (default; TF32 off) or bfloat16.
Prints the differences of log-probabilities (nats) and ||difference|| / ||PyTorch's|| of gradient and change of the adapter.
Needs torch, transformers, safetensors. q, k and v have one A together, and gate and up one, as SkyRL has them.
With --epsilon 1 --rate 1 --epochs 1 the server's gradient is compared; else the adapter after Adam's steps.
"""
import json
import re
import sys
import time

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
MAX_LOG_RATIO = 20.0
GROUP = {"k_proj": "q_proj", "v_proj": "q_proj", "up_proj": "gate_proj"}


def huber(x, c):
    return torch.where(x.abs() <= c, x * x / 2, c * (x.abs() - c / 2))


class Lora:
    """x -> x + (x A^T) B^T alpha / rank on each linear layer that the adapter names."""

    def __init__(self, model, tensors, scale, dtype):
        self.parameters, self.named, self.on = [], {}, True
        own = lambda values: values.to("cuda" if torch.cuda.is_available() else "cpu", dtype).clone().requires_grad_()
        for name, values in tensors.items():
            module, part = re.fullmatch(r"base_model\.model\.(.+)\.(lora_[AB])\.weight", name).groups()
            head, kind = module.rsplit(".", 1)
            key = f"{head}.{GROUP.get(kind, kind)}.lora_A" if part == "lora_A" else f"{module}.lora_B"
            if key not in self.named:
                self.named[key] = own(values)
                self.parameters.append(self.named[key])
            self.named[name] = self.named[key]
        for name, module in model.named_modules():
            a = self.named.get(f"base_model.model.{name}.lora_A.weight")
            if a is None:
                continue
            b = self.named[f"base_model.model.{name}.lora_B.weight"]
            module.register_forward_hook(
                lambda _m, given, out, a=a, b=b: out + (given[0] @ a.T @ b.T) * scale if self.on else out
            )


def answer_logprobs(model, prompt, completion):
    ids = torch.tensor([prompt + completion[:-1]], device=model.device)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, len(prompt) - 1 :]
    logits = model.lm_head(hidden).float()
    targets = torch.tensor(completion, device=model.device)
    return logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]


def loss_of(item, now, settings):
    """Of one turn; the sum over the turns of a batch is the loss."""
    like = lambda values: torch.tensor(values, device=now.device, dtype=torch.float32)
    advantage, old = item["advantage"], like(item["old"])
    ratio = (now - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    bounded = ratio.clamp(1 - settings["clipLow"], 1 + settings["clipHigh"])
    loss = (like(item["policy"]) * torch.maximum(-ratio * advantage, -bounded * advantage)).sum()
    cap = settings.get("logRatioMax", 2)
    for weight, reference in ((item["opd"], item["teacher"]), (item["kl"], item["base"])):
        if weight and reference:
            loss = loss + weight * (like(item["importance"]) * huber(now - like(reference), cap)).sum()
    return loss


def norm(tensors):
    return sum(float(values.double().square().sum()) for values in tensors.values()) ** 0.5


def main(folder, dumped, dtype="float32"):
    dtype = getattr(torch, dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = json.load(open(f"{dumped}/batch.json"))
    settings, items = given["settings"], given["items"]
    initial, final = (load_file(f"{dumped}/{name}.safetensors") for name in ("initial", "final"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval().requires_grad_(False)
    lora = Lora(model, initial, given["alpha"] / given["rank"], dtype)
    apart = {}
    with torch.no_grad():
        for name, prompt, on in (("old", "prompt", True), ("base", "prompt", False), ("teacher", "hintPrompt", False)):
            lora.on = on
            rows = [
                (answer_logprobs(model, item[prompt], item["completion"]).cpu() - torch.tensor(item[name])).abs()
                for item in items
                if item[name] and item[prompt]
            ]
            if rows:
                apart[name] = {"max": float(torch.cat(rows).max()), "mean": float(torch.cat(rows).mean())}
    lora.on = True
    options = {"lr": settings["learningRate"], "betas": (settings["beta1"], settings["beta2"])}
    adam = torch.optim.Adam(lora.parameters, eps=settings.get("adamEpsilon", 1e-8), **options)
    losses, norms = [], []
    begin = time.perf_counter()
    for _ in range(settings["epochs"]):
        adam.zero_grad()
        total = 0.0
        for item in items:
            loss = loss_of(item, answer_logprobs(model, item["prompt"], item["completion"]), settings)
            loss.backward()
            total += float(loss)
        losses.append(total)
        norms.append(sum(float(one.grad.double().square().sum()) for one in lora.parameters) ** 0.5)
        adam.step()
    seconds = time.perf_counter() - begin
    ours = {name: lora.named[name].detach().cpu().float() - initial[name].float() for name in initial}
    theirs = {name: final[name].float() - initial[name].float() for name in initial}
    if settings.get("adamEpsilon") == 1 and settings["epochs"] == 1:
        # A weight moves by g / (|g| + 1).
        ours, theirs = ({name: values / (1 - values.abs()) for name, values in all.items()} for all in (ours, theirs))
    report = {"dtype": str(dtype), "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
              "logprobs": apart, "loss": {"torch": losses, "server": given["figures"]["loss"]},
              "gradNorm": {"torch": norms, "server": given["figures"].get("gradNorm")}, "seconds": seconds}
    for part in ("", "lora_A", "lora_B"):
        own = {name: values for name, values in ours.items() if part in name}
        difference = {name: theirs[name] - values for name, values in own.items()}
        report[f"change {part}".strip()] = {"norm": norm(own), "apart": norm(difference) / max(norm(own), 1e-30)}
    by_module = {}
    for name in ours:
        kind = ".".join(name.split(".")[-3:-1])
        by_module.setdefault(kind, []).append(name)
    report["byModule"] = {
        kind: norm({n: theirs[n] - ours[n] for n in names}) / max(norm({n: ours[n] for n in names}), 1e-30)
        for kind, names in by_module.items()
    }
    if device == "cuda":
        report["peakMiB"] = torch.cuda.max_memory_allocated() >> 20
    print(json.dumps(report, indent=1))


main(*sys.argv[1:])
