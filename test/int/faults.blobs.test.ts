/** The bytes that the broker sends for one blob, among ten minutes of other blobs. */
import { schemaTexts } from '@instar/events'
import { getBlob, putBlob } from '@instar/log'
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { range } from '../kit/event-log/harness.ts'
import { startProxied, type Proxied } from '../kit/stack/proxied.ts'
import { API } from '../kit/stack/proxy.ts'

const schemas = schemaTexts()
const KIB = 1024
const T0 = 1_795_000_000_000

let at: Proxied
before(async () => {
  at = await startProxied()
})
after(() => at.end())

test(
  'a blob is read from the offset in its record: its own bytes and at most one page more',
  { timeout: 120_000 },
  async () => {
    const partitions = { blobs: 1 }
    await setupKafka({ brokers: at.kafka.brokers, partitions })
    const registry = new Map(Object.keys(schemas).map((name, i) => [name, i + 1]))
    const log = await openKafkaLog({
      brokers: [`127.0.0.1:${at.proxy.port}`],
      clientId: 'blobs test',
      registry,
      schemas,
      partitions,
    })
    try {
      const sizes = range(60).map((i) => (i % 10 === 5 ? 1300 : i % 10 === 6 ? 30 : 200) * KIB)
      const blobs: { sha256: string; bytes: Buffer; at: number }[] = []
      for (const [i, size] of sizes.entries()) {
        const bytes = randomBytes(size)
        blobs.push({ bytes, at: T0 + i * 10_000, sha256: await putBlob(log, bytes, T0 + i * 10_000) })
      }
      for (const { sha256, bytes, at: time } of [blobs[0]!, blobs[35]!, blobs[46]!, blobs[55]!, blobs[59]!]) {
        const before = at.proxy.answered.get(API.fetch) ?? 0
        assert.deepEqual(Buffer.from(await getBlob(log, sha256, time)), bytes)
        const fetched = at.proxy.answered.get(API.fetch)! - before
        assert.ok(
          fetched >= bytes.length && fetched < bytes.length + 64 * KIB,
          `${fetched} bytes for a blob of ${bytes.length}`,
        )
      }
      const late = blobs[46]!
      assert.deepEqual(
        Buffer.from(await getBlob(log, late.sha256, late.at + 9 * 60_000)),
        late.bytes,
        'a record that names another time finds it, for more bytes',
      )
    } finally {
      await log.close()
    }
  },
)
