/** An imported adapter is written only where every reader knows it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, RELEASED } from '@instar/events'
import { getBlob, openMemoryLog, versionsOn } from '@instar/log'
import { contentSha } from '@instar/events/ids'
import { requireAnnounced, storeImported } from './import.ts'

test('the record is not written before it is announced, and names the blob and the config by their digests', async () => {
  const log = openMemoryLog()
  requireAnnounced(log)
  const versions = versionsOn(log) as Map<string, number>
  for (const [name, version] of RELEASED) versions.set(name, version)
  assert.throws(
    () => requireAnnounced(log),
    (error) => error instanceof InstarError && error.code === 'not_announced',
  )
  const [weights, config] = [new Uint8Array([1, 2, 3]), new Uint8Array([4])]
  const facts = { rank: 4, alpha: 8, targets: ['q_proj'], tensors: 't', tensorCount: 2, baseModel: 'b', source: 's' }
  const adapter = { sha256: contentSha(weights), weights, config }
  const imported = await storeImported(log, { adapter, ...facts }, 5, new AbortController().signal)
  assert.deepEqual(imported, {
    ...facts,
    adapter: adapter.sha256,
    adapterBytes: 3,
    config: contentSha(config),
  })
  assert.deepEqual([...(await getBlob(log, imported.adapter, 5))], [1, 2, 3])
})
