"""Figures that the TensorFlow.js policy is held against, from PyTorch in float64.

    python3 make.py > figures.json        (torch 2.7.0 made the stored ones; any version will do)

Everything is written here from the definitions, in PyTorch's own terms, and shares no code with the policy.
Weights come from a formula that is exact in both languages, so no weights are stored.
"""
import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)


def numbers(shape, tensor, scale, offset=0.0):
    """Element i of tensor number t: (frac(i, t) - 1/2) * scale + offset, rounded to float32."""
    count = math.prod(shape)
    values = [((((i + 1) * 2654435761 + tensor * 40503) % 2**32) / 2**32 - 0.5) * scale + offset for i in range(count)]
    return torch.tensor(values, dtype=torch.float32).double().reshape(shape)


BASE = dict(hiddenSize=12, intermediateSize=20, layers=2, heads=4, kvHeads=2, headDim=6, vocabulary=30, contextLength=64,
            ropeTheta=10000.0, rmsEps=1e-6, qkNorm=False, attentionBias=False, tiedHead=False)
ARCHITECTURES = {
    "Llama": BASE,
    "Qwen2.5": {**BASE, "attentionBias": True, "tiedHead": True, "ropeTheta": 1000000.0},
    "Qwen3": {**BASE, "qkNorm": True, "tiedHead": True, "headDim": 8},
}
PROJECTIONS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def shapes(c):
    q, kv, d, f = c["heads"] * c["headDim"], c["kvHeads"] * c["headDim"], c["hiddenSize"], c["intermediateSize"]
    size = dict(zip(PROJECTIONS, [(q, d), (kv, d), (kv, d), (d, q), (f, d), (f, d), (d, f)]))
    out = {"model.embed_tokens.weight": (c["vocabulary"], d)}
    for layer in range(c["layers"]):
        at = f"model.layers.{layer}."
        out[at + "input_layernorm.weight"] = (d,)
        for p in PROJECTIONS:
            out[f"{at}{p}.weight"] = size[p]
            if c["attentionBias"] and p in PROJECTIONS[:3]:
                out[f"{at}{p}.bias"] = (size[p][0],)
        if c["qkNorm"]:
            out[at + "self_attn.q_norm.weight"] = (c["headDim"],)
            out[at + "self_attn.k_norm.weight"] = (c["headDim"],)
        out[at + "post_attention_layernorm.weight"] = (d,)
    out["model.norm.weight"] = (d,)
    if not c["tiedHead"]:
        out["lm_head.weight"] = (c["vocabulary"], d)
    return out, size


def norm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rotate(x, theta):
    d = x.shape[-1]
    frequency = theta ** (-torch.arange(0, d, 2) / d)
    angle = torch.arange(x.shape[-2])[:, None] * frequency[None]
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    half = torch.cat([-x[..., d // 2:], x[..., : d // 2]], -1)
    return x * cos + half * sin


def forward(c, w, ids, lora=None, scale=0.0):
    def project(x, at, p):
        y = x @ w[f"{at}{p}.weight"].T
        if f"{at}{p}.bias" in w:
            y = y + w[f"{at}{p}.bias"]
        if lora is not None:
            y = y + scale * (x @ lora[f"{at}{p}.lora_A"].T) @ lora[f"{at}{p}.lora_B"].T
        return y

    batch, length = ids.shape
    x = w["model.embed_tokens.weight"][ids]
    causal = torch.full((length, length), -math.inf).triu(1)
    for layer in range(c["layers"]):
        at = f"model.layers.{layer}."
        h = norm(x, w[at + "input_layernorm.weight"], c["rmsEps"])
        heads = lambda y, n: y.reshape(batch, length, n, c["headDim"]).transpose(1, 2)
        q, k, v = (heads(project(h, at, PROJECTIONS[i]), n) for i, n in enumerate([c["heads"], c["kvHeads"], c["kvHeads"]]))
        if c["qkNorm"]:
            q, k = norm(q, w[at + "self_attn.q_norm.weight"], c["rmsEps"]), norm(k, w[at + "self_attn.k_norm.weight"], c["rmsEps"])
        q, k = rotate(q, c["ropeTheta"]), rotate(k, c["ropeTheta"])
        k, v = (t.repeat_interleave(c["heads"] // c["kvHeads"], 1) for t in (k, v))
        o = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(c["headDim"]) + causal, -1) @ v
        x = x + project(o.transpose(1, 2).reshape(batch, length, -1), at, PROJECTIONS[3])
        m = norm(x, w[at + "post_attention_layernorm.weight"], c["rmsEps"])
        x = x + project(torch.nn.functional.silu(project(m, at, PROJECTIONS[4])) * project(m, at, PROJECTIONS[5]), at, PROJECTIONS[6])
    return norm(x, w["model.norm.weight"], c["rmsEps"]) @ w["model.embed_tokens.weight" if c["tiedHead"] else "lm_head.weight"].T


def summary(tensor):
    flat = tensor.detach().reshape(-1)
    return dict(norm=flat.norm().item(), first=[round(value, 10) for value in flat[:4].tolist()])


def figures(c):
    shape, size = shapes(c)
    w = {}
    for t, (name, s) in enumerate(shape.items()):
        w[name] = numbers(s, t, 0.2, 1.0) if len(s) == 1 and name.endswith("norm.weight") else numbers(s, t, 0.8)
    ids = torch.tensor([[3, 17, 9, 22, 5, 11, 28], [8, 1, 26, 14, 19, 2, 7]])
    out = dict(config=c, logits=[[round(v, 8) for v in row] for row in forward(c, w, ids)[1, 4:].tolist()])

    # All weights: mean next-token cross-entropy, the second row's last two targets three times as heavy.
    for tensor in w.values():
        tensor.requires_grad_(True)
    logp = torch.log_softmax(forward(c, w, ids)[:, :-1], -1).gather(-1, ids[:, 1:, None])[..., 0]
    weight = torch.ones_like(logp)
    weight[1, -2:] = 3
    loss = -(weight * logp).sum() / weight.sum()
    loss.backward()
    out["pretraining"] = dict(loss=loss.item(), gradients={name: summary(tensor.grad) for name, tensor in w.items()})
    w = {name: tensor.detach() for name, tensor in w.items()}

    # The adapter: three response tokens of the first row, four of the second, the hybrid loss with all its parts.
    rank, alpha = 2, 4
    lora, t = {}, 1000
    for layer in range(c["layers"]):
        for p in PROJECTIONS:
            lora[f"model.layers.{layer}.{p}.lora_A"] = numbers((rank, size[p][1]), t, 0.6).requires_grad_(True)
            lora[f"model.layers.{layer}.{p}.lora_B"] = numbers((size[p][0], rank), t + 1, 0.6).requires_grad_(True)
            t += 2
    places = [(0, 3), (0, 4), (0, 5), (1, 2), (1, 3), (1, 4), (1, 5)]
    temperature = torch.tensor([0.7] * 3 + [1.0] * 4)
    pick = lambda logits: torch.log_softmax(torch.stack([logits[b, j] for b, j in places]) / temperature[:, None], -1)
    student = pick(forward(c, w, ids, lora, alpha / rank))
    base = pick(forward(c, w, ids))
    teacher = base.roll(1, -1).detach()
    chosen = student.gather(-1, torch.tensor([ids[b, j + 1] for b, j in places])[:, None])[:, 0]
    old = chosen.detach() + torch.tensor([0.0, 0.5, -0.5, 0.1, 0.3, -0.4, 0.0])
    advantage = torch.tensor([0.8] * 3 + [-0.6] * 4)
    importance = torch.tensor([1 / 7, 2 / 7, 1 / 7, 0.5 / 7, 1 / 7, 1 / 7, 1 / 7])
    ratio = (chosen - old).exp()
    policy = (importance * torch.maximum(-ratio * advantage, -ratio.clamp(0.8, 1.28) * advantage)).sum()
    opd = 0.9 * (student[3:].exp() * (student[3:] - teacher[3:])).sum(-1).mean()
    kl = 0.3 * (student.exp() * (student - base)).sum(-1).mean()
    # Rehearsal: the same tokens as answers to general prompts, KL(base || student) at temperature 1.
    at_one = lambda logits: torch.log_softmax(torch.stack([logits[b, j] for b, j in places]), -1)
    kept, moved = at_one(forward(c, w, ids)), at_one(forward(c, w, ids, lora, alpha / rank))
    rehearsal = 1.5 * torch.nn.functional.kl_div(moved, kept, log_target=True, reduction="sum") / len(places)
    found = torch.autograd.grad(rehearsal, lora.values())
    out["rehearsal"] = dict(base=[[round(v, 9) for v in row] for row in kept.tolist()], loss=rehearsal.item(),
                            gradients={name: summary(gradient) for name, gradient in zip(lora, found)})
    total = policy + opd + kl
    optimizer = torch.optim.Adam(lora.values(), lr=3e-3, betas=(0.9, 0.95))
    total.backward()
    out["adapter"] = dict(rank=rank, alpha=alpha, logp=chosen.tolist(), old=old.tolist(), teacher=[[round(v, 9) for v in row] for row in teacher[3:].tolist()],
                          base=[[round(v, 9) for v in row] for row in base.tolist()], importance=importance.tolist(),
                          loss=total.item(), policy=policy.item(), opd=opd.item(), kl=kl.item(),
                          gradients={name: summary(tensor.grad) for name, tensor in lora.items()})
    out["adapter"]["norm"] = torch.nn.utils.clip_grad_norm_(lora.values(), 0.5).item()
    optimizer.step()
    optimizer.step()
    out["adapter"]["afterTwoSteps"] = {name: summary(tensor) for name, tensor in lora.items()}
    return out


json.dump({name: figures(c) for name, c in ARCHITECTURES.items()}, sys.stdout)
print()
