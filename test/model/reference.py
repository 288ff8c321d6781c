"""Reference figures for smollm2.json, from an implementation that shares nothing with ours.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install gguf numpy tokenizers
    /tmp/reference/bin/python test/model/reference.py .cache/SmolLM2-135M-Instruct.Q4_1.gguf > test/model/smollm2.json

Weights are dequantised by the gguf package, the decoder is float64 numpy with interleaved RoPE on the rows as
they lie in the file, ids are those of the tokenizers package.
"""
import hashlib
import json
import sys

import gguf
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

path = sys.argv[1]
reader = gguf.GGUFReader(path)


def field(name):
    return reader.get_field(name).contents()


LAYERS = field("llama.block_count")
HEADS = field("llama.attention.head_count")
KV = field("llama.attention.head_count_kv")
THETA = field("llama.rope.freq_base")
EPS = field("llama.attention.layer_norm_rms_epsilon")
W = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
D = W["token_embd.weight"].shape[1]
HD = D // HEADS

tokens, merges, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges"), field("tokenizer.ggml.token_type")
bpe = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
bpe.decoder = decoders.ByteLevel()
plain = Tokenizer.from_str(bpe.to_str())
bpe.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3])


def norm(x, name):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * W[name]


def rope(x):  # [heads, T, HD], neighbours are pairs
    T = x.shape[1]
    angle = np.arange(T)[:, None] * THETA ** (-np.arange(0, HD, 2) / HD)
    c, s = np.cos(angle), np.sin(angle)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return out


def logprobs(ids):  # of the token after ids
    T = len(ids)
    x = W["token_embd.weight"][ids]
    mask = np.triu(np.full((T, T), -np.inf), 1)
    for layer in range(LAYERS):
        b = f"blk.{layer}."
        h = norm(x, b + "attn_norm.weight")

        def heads(name, n):
            return (h @ W[b + name].T).reshape(T, n, HD).transpose(1, 0, 2)

        q, k, v = rope(heads("attn_q.weight", HEADS)), rope(heads("attn_k.weight", KV)), heads("attn_v.weight", KV)
        k, v = np.repeat(k, HEADS // KV, 0), np.repeat(v, HEADS // KV, 0)
        s = q @ k.transpose(0, 2, 1) / np.sqrt(HD) + mask
        s = np.exp(s - s.max(-1, keepdims=True))
        o = (s / s.sum(-1, keepdims=True)) @ v
        x = x + o.transpose(1, 0, 2).reshape(T, D) @ W[b + "attn_output.weight"].T
        h = norm(x, b + "ffn_norm.weight")
        g = h @ W[b + "ffn_gate.weight"].T
        x = x + ((g / (1 + np.exp(-g))) * (h @ W[b + "ffn_up.weight"].T)) @ W[b + "ffn_down.weight"].T
    z = norm(x[-1], "output_norm.weight") @ W["token_embd.weight"].T
    return z - z.max() - np.log(np.exp(z - z.max()).sum())


def chat(text):
    return bpe.encode(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    ).ids


TEXTS = [
    "Hello, world!",
    "don't I'll we've it's 'S",
    "  two  spaces \t tab\r\n\r\nnew\n ",
    "12345 3.14 x\u00b2\u00b3 \u0664\u0662",
    "h\u00e9llo \u6f22\u5b57 \u65e5\u672c\u8a9e \U0001f389\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "def f(x):\n    return {'a': x**2, \"b\": [1, 2]}  # \u2026",
    "<|im_start|>user\n<|im_end|>",
    "a \u0085 b\ufeff\n\n\u3000 c\u00a0\u00a0d",
    "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u041f\u0440\u0438\u0432\u0435\u0442",
]
answers = []
for question in ["What is the capital of France?", "Write one sentence about the sea.", "2+2=?"]:
    ids = chat(question)
    prompt, steps = list(ids), []
    for _ in range(10):
        lp = logprobs(ids)
        top = np.argsort(-lp, kind="stable")[:10]
        steps.append([[int(i), round(float(lp[i]), 7)] for i in top])
        ids = ids + [int(top[0])]
        if ids[-1] == 2:
            break
    answers.append({"question": question, "prompt": prompt, "steps": steps})

with open(path, "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
json.dump({"sha256": digest, "encodings": [{"text": t, "ids": plain.encode(t, add_special_tokens=False).ids} for t in TEXTS], "answers": answers}, sys.stdout, ensure_ascii=True)
