/**
 * Defaults that depend on the size of the model: one row for each setting, one value for each size. `null`: the default
 * of the service's schema, which was tuned on the model that ships (1.6 million parameters). Each row states what its
 * values rest on; docs/settings.md is generated from this table.
 */

/** The classes of models by their number of parameters, smallest first. `parametersMax` null: no bound. */
export const MODEL_SIZES = [
  { name: 'tiny', parametersMax: 10_000_000 },
  { name: 'small', parametersMax: 500_000_000 },
  { name: 'larger', parametersMax: null },
] as const
type ModelSize = (typeof MODEL_SIZES)[number]
type Value = number | string | null

/** `embeddedOnly`: not where a training server computes the updates (`training.server`). */
type SizeDefault = { setting: string; evidence: string; embeddedOnly?: true } & Readonly<
  Record<ModelSize['name'], Value>
>

export const DEFAULTS_BY_SIZE: readonly SizeDefault[] = [
  {
    setting: 'training.epochs',
    tiny: null,
    small: 1,
    larger: 1,
    evidence:
      'small: an epoch costs half of an update of two; with miniBatches it has several steps (docs/learning.md, "A general model"). larger: none, as small',
  },
  {
    setting: 'training.miniBatches',
    tiny: null,
    small: 6,
    larger: 6,
    evidence:
      'small: one large step along the gradient makes answers degenerate within the same KL (docs/learning.md, "A general model"). larger: none, as small',
  },
  {
    setting: 'training.learningRate',
    tiny: null,
    small: 0.001,
    larger: 0.001,
    evidence:
      'small: four steps at this rate reach the bound to the parent in the first update, and a KL of 0.09 in the second. larger: none, as small',
  },
  {
    setting: 'training.opdForward',
    tiny: null,
    small: 1,
    larger: 1,
    evidence:
      'small: with the reverse KL later updates took the first one back, with the forward KL they add up (docs/learning.md, "A general model"). larger: none, as small',
  },
  {
    setting: 'training.opdWeight',
    tiny: null,
    small: 3,
    larger: 3,
    evidence:
      'small: with the forward KL 0.00/0.38/0.16 became 0.63/0.75/1.00 in two updates (eight answers each). larger: none, as small',
  },
  {
    setting: 'training.klParentMax',
    tiny: null,
    small: 0.3,
    larger: 0.3,
    evidence:
      'small: honest learning of a strong wish costs 0.4 to 0.5 nats per token in one update; the default of tiny stops it for ever. 0.3 was not tuned; a synthetic batch of 16 turns moved 0.19 at the rate and epochs in force. larger: none, as small',
  },
  {
    setting: 'training.klBaseMax',
    tiny: null,
    small: 0.8,
    larger: 0.8,
    evidence: 'none: above the cost of one strong wish (0.5), so that a second one can be learned',
  },
  {
    setting: 'training.batchMax',
    tiny: null,
    small: 16,
    larger: 16,
    evidence:
      'small: two epochs on 32 turns took 206 and 184 s beside four callers on two cores, so that ten minutes had two updates. larger: none, as small',
  },
  {
    setting: 'training.turnTokensMax',
    embeddedOnly: true,
    tiny: null,
    small: 1024,
    larger: 1024,
    evidence:
      'not on a training server, which has its own limit. small: a turn of 1,024 tokens takes 2.9 GB, and memory grows with the square of its length (docs/learning.md, "Cost and memory of an update"). larger: none, as small',
  },
  {
    setting: 'training.referenceTopK',
    tiny: null,
    small: 256,
    larger: 256,
    evidence:
      'small: on 576 tokens of SmolLM2-135M 256 of 49,152 tokens lose 0.2 % of the KL to the base and 0.5 % of that to a teacher (64: 1 % and 6 %) and take 2 KB instead of 197 KB a token. larger: none, as small',
  },
  {
    setting: 'gate.klParent',
    tiny: null,
    small: 0.45,
    larger: 0.45,
    evidence:
      'none: 1.5 × training.klParentMax, as for tiny, since the gate measures on the candidate’s own samples; 0.45 was measured on a good update',
  },
  {
    setting: 'gate.klBase',
    tiny: null,
    small: 1,
    larger: 1,
    evidence: 'none: 1.25 × training.klBaseMax, as for tiny',
  },
  ...(
    [
      ['gate.samples', 12],
      ['gate.fixedSamples', 8],
      ['gate.maxTokens', 32],
      ['gate.battery.kept', 40],
      ['gate.positiveTurns', 6],
    ] as const
  ).map(([setting, value]) => ({
    setting,
    tiny: null,
    small: value,
    larger: value,
    evidence: 'the cost of a verdict beside that of an update (docs/learning.md, "Probes")',
  })),
  {
    setting: 'judge.reactions.wordings',
    tiny: null,
    small: 'general',
    larger: 'general',
    evidence:
      'small: SmolLM2-135M follows 0.25, 0.14 and 0.45 of the hints of tiny for short, plain and warm answers, and 0.71, 0.75 and 0.92 of these (docs/learning.md, "A general model"). larger: none, as small',
  },
]

/** The class of a model; null for an unknown number of parameters. */
export const sizeOfModel = (parameters: number | null): ModelSize | null =>
  parameters === null
    ? null
    : (MODEL_SIZES.find(({ parametersMax }) => parametersMax === null || parameters <= parametersMax) ?? null)
