/** A turn that cannot be read, or whose conversation cannot, costs itself and not the measurement of a candidate. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, type BatchItem, type BatchSealed, type UpdateComputed, type VersionState } from '@instar/events'
import { openMemoryLog, putBlob, type TurnReader } from '@instar/log'
import type { EvaluateRequest, Model, Parent, ScoreRequest, StepSettings } from '@instar/engine/port'
import { ScriptedLearner } from '../../../../test/kit/scripted-learner.ts'
import { publisherConfig } from '../config.ts'
import { evaluate } from './evaluate.ts'
import { NO_PROBES } from './probes.ts'
import { rowsOfLearner } from './serving.ts'

const FAULTS: Readonly<Record<string, string>> = { damaged: 'bad_record', torn: 'unknown_turn', hole: 'missing_blob' }
const requireReadable = (turn: string): void => {
  const code = FAULTS[turn]
  if (code !== undefined) throw new InstarError(code as 'bad_record', `${turn} cannot be read`)
}
/** The prompt of the turn `n` is [n]; the record of `torn` is there, the turn before it is not. */
const reader = {
  record: async (turn: string) => {
    if (turn !== 'torn') requireReadable(turn)
    // As one that was scored by an earlier build may be.
    return { ids: [1, 2], sampling: { temperature: 1 }, trainable: turn !== '10' }
  },
  promptIds: async (turn: string) => {
    requireReadable(turn)
    return [Number(turn)]
  },
} as unknown as TurnReader

class Recording extends ScriptedLearner {
  readonly prompts: number[] = []
  readonly scored: number[] = []
  override evaluate(request: EvaluateRequest) {
    this.prompts.push(...request.prompts.map(([id = -1]) => id))
    return super.evaluate(request)
  }
  override async score({ prompt, completion }: ScoreRequest) {
    this.scored.push(prompt[0] ?? -1)
    return Float32Array.from(completion, () => -1)
  }
}

const sealed = {
  number: 1,
  items: ['damaged', '4', 'torn', '5', 'hole', '6', '7'].map((turn) => ({ turn }) as BatchItem),
} as BatchSealed

test('a candidate is measured on the turns of its batch and the positive ones that can be read', async () => {
  const log = openMemoryLog()
  const learner = new Recording()
  const parent: Parent = { adapter: null, state: null }
  const { adapter } = await learner.step([], {} as StepSettings, parent)
  await putBlob(log, adapter.weights, 1)
  const head = { version: 0, adapter: null, blobsAt: 0 } as VersionState
  const figures = await evaluate(
    {
      log,
      reader,
      probes: NO_PROBES,
      evaluator: learner,
      model: { defaults: { temperature: 1 }, promptIds: () => [] } as unknown as Model,
    },
    publisherConfig.parse({ samples: 3 }),
    {
      computed: { adapter: adapter.sha256, blobsAt: 1 } as UpdateComputed,
      sealed,
      head,
      started: null,
      base: null,
      positive: ['torn', '8', 'damaged', '10', 'hole', '9'],
      parent: { length: 1 },
    },
  )
  deepEqual(learner.prompts, [4, 5, 6])
  deepEqual(learner.scored, [8, 8, 9, 9], 'by the candidate and by the head')
  deepEqual([figures.positive_logprob, figures.finite], [-1, 1])
  await log.close()
})

test('servers are compared on the answers of the batch that can be read', async () => {
  const learner = new Recording()
  const { adapter } = await learner.step([], {} as StepSettings, { adapter: null, state: null })
  const rows = await rowsOfLearner(async () => learner)({ adapter, computed: {} as UpdateComputed, sealed, reader })
  deepEqual(
    rows?.map(({ prompt }) => prompt[0]),
    [4, 5, 6, 7],
  )
  equal(learner.loaded.size, 0)
})
