"""The same decoder in PyTorch, like that of Hugging Face: separate projections, a key-value cache, LoRA beside the
frozen weights as in PEFT, fused attention and norms of PyTorch.

Reads one JSON request per line, answers with one JSON line:
  {"op": "load", "weights": FILE, "adapter": FILE, "config": {...}}  safetensors files, float32
  {"op": "decode", "dtype", "threads", "prompts": [[id]], "steps", "adapter": bool}
      greedy; the prompts (of equal lengths) are read before the measurement
      -> {"seconds", "fastest" (of one step), "ids": [[id]]}
  {"op": "read", "threads", "steps"}
      reads as many bytes as the float32 weights have, `steps` times, by a product with a vector: a lower bound of a
      decode step if the weights do not fit in a cache -> {"seconds", "fastest", "bytes"}
  {"op": "train", "dtype", "threads", "rows": [{"ids", "start"}], "old", "advantage", "weight", "clip", "learningRate", "betas"}
      one clipped policy-gradient step on a new copy of the adapter -> {"seconds", "fastest", "loss", "gradNorm"}
"""
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

PROJECTIONS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def safetensors(path):
    data = np.fromfile(path, dtype=np.uint8)
    size = int(data[:8].view(np.uint64)[0])
    header = json.loads(bytes(data[8:8 + size]))
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = torch.from_numpy(data[8 + size + begin:8 + size + end].copy().view(np.float32).reshape(entry["shape"]))
    return out


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class Policy:
    def __init__(self, weights, config, dtype):
        self.w = {name: tensor.to(dtype) for name, tensor in weights.items()}
        self.c = config
        self.dtype = dtype
        d = config["headDim"]
        angle = torch.arange(config["positions"])[:, None] * config["ropeTheta"] ** (-torch.arange(0, d, 2) / d)
        self.cos = torch.cat((angle, angle), -1).cos().to(dtype)
        self.sin = torch.cat((angle, angle), -1).sin().to(dtype)

    def cache(self, rows):
        c = self.c
        return [torch.empty(2, rows, c["kvHeads"], c["positions"], c["headDim"], dtype=self.dtype) for _ in range(c["layers"])]

    def project(self, layer, name, x, lora):
        path = f"model.layers.{layer}.{name}"
        y = F.linear(x, self.w[path + ".weight"], self.w.get(path + ".bias"))
        if lora is None:
            return y
        a, b = lora[path]
        return y + F.linear(F.linear(x, a.to(self.dtype)), b.to(self.dtype)) * (self.c["alpha"] / self.c["rank"])

    def norm(self, x, name):
        return F.rms_norm(x, (x.shape[-1],), self.w[name], self.c["rmsEps"])

    def hidden(self, ids, lora=None, cache=None, start=0):
        """[B, T] -> [B, T, D]. The cache holds the positions before `start`."""
        c = self.c
        B, T = ids.shape
        H, G, d = c["heads"], c["kvHeads"], c["headDim"]
        cos, sin = self.cos[start:start + T], self.sin[start:start + T]
        x = F.embedding(ids, self.w["model.embed_tokens.weight"])
        for layer in range(c["layers"]):
            at = f"model.layers.{layer}."
            h = self.norm(x, at + "input_layernorm.weight")
            q = self.project(layer, PROJECTIONS[0], h, lora).view(B, T, H, d)
            k = self.project(layer, PROJECTIONS[1], h, lora).view(B, T, G, d)
            v = self.project(layer, PROJECTIONS[2], h, lora).view(B, T, G, d).transpose(1, 2)
            if c["qkNorm"]:
                q = self.norm(q, at + "self_attn.q_norm.weight")
                k = self.norm(k, at + "self_attn.k_norm.weight")
            q = rotate(q.transpose(1, 2), cos, sin)
            k = rotate(k.transpose(1, 2), cos, sin)
            if cache is not None:
                cache[layer][0][:, :, start:start + T] = k
                cache[layer][1][:, :, start:start + T] = v
                k, v = cache[layer][0][:, :, :start + T], cache[layer][1][:, :, :start + T]
            if T == 1:
                o = F.scaled_dot_product_attention(q.reshape(B, G, H // G, d), k, v)
            else:
                o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != G)
            o = o.reshape(B, H, T, d).transpose(1, 2).reshape(B, T, H * d)
            x = x + self.project(layer, PROJECTIONS[3], o, lora)
            m = self.norm(x, at + "post_attention_layernorm.weight")
            gate = F.silu(self.project(layer, PROJECTIONS[4], m, lora)) * self.project(layer, PROJECTIONS[5], m, lora)
            x = x + self.project(layer, PROJECTIONS[6], gate, lora)
        return self.norm(x, "model.norm.weight")

    def logits(self, hidden):
        return F.linear(hidden, self.w["model.embed_tokens.weight" if self.c["tiedHead"] else "lm_head.weight"])


models = {}
source = {}


def policy(dtype):
    if dtype not in models:
        models[dtype] = Policy(source["weights"], source["config"], getattr(torch, dtype))
    return models[dtype]


def adapter(grad):
    return {path: [matrix.clone().requires_grad_(grad) for matrix in pair] for path, pair in source["adapter"].items()}


def load(request):
    source["weights"] = safetensors(request["weights"])
    source["config"] = request["config"]
    flat = safetensors(request["adapter"])
    source["adapter"] = {}
    for layer in range(request["config"]["layers"]):
        for name in PROJECTIONS:
            path = f"model.layers.{layer}.{name}"
            source["adapter"][path] = [flat[f"base_model.model.{path}.lora_{side}.weight"] for side in "AB"]
    models.clear()
    size = request["config"]["hiddenSize"]
    source["flat"] = torch.ones(sum(tensor.numel() for tensor in source["weights"].values()) // size, size)
    return {"torch": torch.__version__}


@torch.inference_mode()
def decode(model, request):
    ids = torch.tensor(request["prompts"])
    lora = adapter(False) if request["adapter"] else None
    cache = model.cache(len(ids))
    at = ids.shape[1]
    last = model.logits(model.hidden(ids, lora, cache)[:, -1:]).argmax(-1)
    out = [last]
    seconds = []
    for _ in range(request["steps"]):
        started = time.perf_counter()
        last = model.logits(model.hidden(last, lora, cache, at)).argmax(-1)
        seconds.append(time.perf_counter() - started)
        out.append(last)
        at += 1
    return {"seconds": sum(seconds), "fastest": min(seconds), "ids": torch.cat(out, 1).tolist()}


@torch.inference_mode()
def read(_, request):
    flat = source["flat"]
    vector = torch.ones(flat.shape[1])
    seconds = []
    for _ in range(request["steps"]):
        started = time.perf_counter()
        torch.mv(flat, vector)
        seconds.append(time.perf_counter() - started)
    return {"seconds": sum(seconds), "fastest": min(seconds), "bytes": flat.numel() * 4}


def train(model, request):
    lora = adapter(True)
    parameters = [matrix for pair in lora.values() for matrix in pair]
    optimizer = torch.optim.Adam(parameters, lr=request["learningRate"], betas=request["betas"])
    ids = torch.tensor([row["ids"] for row in request["rows"]])
    T = ids.shape[1] - 1
    rows = torch.tensor([at * T + t for at, row in enumerate(request["rows"]) for t in range(row["start"] - 1, T)])
    targets = torch.cat([ids[at, row["start"]:] for at, row in enumerate(request["rows"])])
    old, advantage, weight = (torch.tensor(request[name]) for name in ("old", "advantage", "weight"))
    started = time.perf_counter()
    hidden = model.hidden(ids[:, :-1], lora).reshape(-1, source["config"]["hiddenSize"])[rows]
    logp = F.log_softmax(model.logits(hidden).float(), -1).gather(1, targets[:, None])[:, 0]
    ratio = (logp - old).exp()
    loss = -(torch.minimum(ratio * advantage, ratio.clamp(1 - request["clip"], 1 + request["clip"]) * advantage) * weight).sum()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "fastest": seconds, "loss": loss.item(), "gradNorm": norm.item()}


for line in sys.stdin:
    message = json.loads(line)
    if message["op"] == "load":
        reply = load(message)
    else:
        torch.set_num_threads(message["threads"])
        reply = {"decode": decode, "train": train, "read": read}[message["op"]](policy(message.get("dtype", "float32")), message)
    print(json.dumps(reply), flush=True)
