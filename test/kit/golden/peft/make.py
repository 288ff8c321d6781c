"""Writes the fixture of peft-folder.test.ts: an adapter for models/tiny in the folder `adapter`, saved by peft, and
`logprobs.json`, the log-probabilities of given tokens under it by PyTorch.
Made with peft 0.18.1, torch 2.15.0, transformers 5.16.1, safetensors 0.8.0, Python 3.12:
    python test/kit/golden/peft/make.py
"""

import json
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
MODEL = HERE.parents[3] / "models" / "tiny"

torch.manual_seed(11)
torch.set_num_threads(1)
base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
config = LoraConfig(
    r=4,
    lora_alpha=10,
    target_modules=["q_proj", "v_proj", "down_proj"],
    lora_dropout=0.05,
    task_type="CAUSAL_LM",
)
model = get_peft_model(base, config)
for name, weight in model.named_parameters():
    if "lora_B" in name:
        torch.nn.init.normal_(weight, std=0.05)
model.eval()
model.base_model.model.name_or_path = "instar/tiny"
config.base_model_name_or_path = "instar/tiny"
model.peft_config["default"].base_model_name_or_path = "instar/tiny"
model.save_pretrained(HERE / "adapter")
(HERE / "adapter" / "README.md").unlink(missing_ok=True)

generator = torch.Generator().manual_seed(5)
rows = []
for length in (3, 17, 40):
    ids = torch.randint(3, base.config.vocab_size, (length + 12,), generator=generator).tolist()
    prompt, completion = ids[:length], ids[length:]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
        with model.disable_adapter():
            plain = model(torch.tensor([ids])).logits[0].double()

    def of(values):
        table = torch.log_softmax(values, -1)
        return [table[length - 1 + i, token].item() for i, token in enumerate(completion)]

    rows.append({"prompt": prompt, "completion": completion, "adapter": of(logits), "base": of(plain)})
(HERE / "logprobs.json").write_text(json.dumps(rows, indent=1) + "\n")
