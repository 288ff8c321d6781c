/** A learning engine that computes hashes, for tests of the services around it. */
import { createHash } from 'node:crypto'
import type {
  Adapter,
  EvaluateRequest,
  Evaluation,
  LearningEngine,
  Model,
  Parent,
  StepResult,
  StepSettings,
  TrainItem,
} from '@instar/engine/port'
import { writeAdapter } from '@instar/policy'

const figures = {
  loss: 0.5,
  policyLoss: 0.5,
  opdLoss: 0,
  klLoss: 0,
  gradNorm: 1,
  meanAdvantage: 0,
  meanAbsAdvantage: 1,
  clipFraction: 0,
  maskedTurns: 0,
  behaviourGap: 0,
  tokens: 1,
  steps: 2,
  droppedHints: 0,
}
const fingerprint = { engine: 'scripted', build: '1', isa: 'none', threads: 1, base: 'base' }
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export class ScriptedLearner implements LearningEngine {
  steps = 0
  evaluations = 0
  readonly loaded = new Set<string>()
  /** Errors of the next calls, one each. */
  readonly faults: Error[] = []
  /** The KL to the parent that the next evaluations return. */
  kl = 0.001

  fingerprint() {
    return fingerprint
  }
  async load(adapter: Adapter) {
    this.loaded.add(adapter.sha256)
  }
  async unload(name: string) {
    this.loaded.delete(name)
  }
  async close() {
    this.loaded.clear()
  }

  async step(items: readonly TrainItem[], settings: StepSettings, parent: Parent): Promise<StepResult> {
    this.fail()
    this.steps += 1
    const digest = createHash('sha256')
      .update(JSON.stringify([items, settings, parent.adapter?.sha256 ?? null]))
      .digest()
    const adapter = writeAdapter(
      {
        rank: 1,
        alpha: 1,
        modules: new Map([
          [
            'model.layers.0.self_attn.q_proj',
            {
              a: { shape: [1, 8], data: Float32Array.from(digest.subarray(0, 8)) },
              b: { shape: [8, 1], data: new Float32Array(8) },
            },
          ],
        ]),
      },
      'base',
    )
    const state = new Uint8Array(digest)
    return { adapter, state, stateSha256: sha256(state), figures, fingerprint }
  }

  async evaluate(request: EvaluateRequest): Promise<Evaluation> {
    this.fail()
    this.evaluations += 1
    return {
      completions: request.prompts.map(() => ({ ids: [1, 2], text: 'x', reason: 'stop' })),
      kl: request.references.map(() => this.kl),
      entropy: 1,
      length: 2,
      repetition: 0,
    }
  }

  async score({ completion }: { completion: readonly number[] }) {
    return new Float32Array(completion.length).fill(-1)
  }

  private fail(): void {
    const fault = this.faults.shift()
    if (fault) throw fault
  }
}

/** A model for services around a ScriptedLearner; a prompt has one token per character of its messages' JSON. */
export const SCRIPTED_MODEL: Model = {
  name: 'm',
  sha256: 'base',
  contextLength: 64,
  vocabulary: 8,
  defaults: { temperature: 1, topP: 1, topK: 0 },
  endOfTurn: [0],
  encode: () => [1],
  decode: () => 'x',
  detokenizer: () => ({ push: () => 'x', end: () => '' }),
  render: () => 'x',
  promptIds: (messages) => Array.from({ length: JSON.stringify(messages).length }, () => 1),
}
