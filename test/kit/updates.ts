/** Records of `updates` with nothing in them but what a test gives. */
import type { BatchSealed, UpdateComputed } from '@instar/events'

export const sealedBatch = (fields: Partial<BatchSealed>): BatchSealed => ({
  type: 'BatchSealed',
  prev: '',
  policy: 'policy',
  number: 1,
  parent: { version: 0, adapter: null, state: null },
  items: [],
  dropped: [],
  baselines: [],
  seed: 1,
  loss: 'hybrid',
  settings: {},
  at: 1,
  ...fields,
})

/** `of`: in the names of its blobs and its times, too. */
export const computedUpdate = (of: number, fields: Partial<UpdateComputed>): UpdateComputed => ({
  type: 'UpdateComputed',
  prev: '',
  policy: 'policy',
  batch: '',
  number: 1,
  adapter: `a${of}`,
  adapterBytes: 1,
  state: `s${of}`,
  stateBytes: 1,
  blobsAt: of,
  fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
  figures: {},
  startedAt: of,
  at: of,
  ...fields,
})
