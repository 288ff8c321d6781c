/**
 * The gate with the real engines: updates with default settings pass, and updates with a harmful setting are rejected
 * with their reason.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import {
  decodeRecord,
  foldWeights,
  initialWeights,
  weightLine,
  type Logged,
  type MemoryWeightLine,
  type UpdateComputed,
  type WeightsEvent,
} from '@instar/events'
import { after, before, describe, test } from 'node:test'
import { dataFolder } from './process.ts'
import { open, talkTwice, type Place } from './history.ts'

type Promoted = { accepted: boolean; reason?: string; head: number; version: number }
type Line = { report: { equal: boolean | null; versions: number } }

describe('the gate', { timeout: 280_000 }, () => {
  const data = dataFolder()
  let place: Place
  before(async () => {
    place = await open(data)
    await talkTwice(place, 0)
  })
  after(() => place.stop())

  const lineNow = async (): Promise<MemoryWeightLine> => {
    const weights = initialWeights()
    for await (const records of place.log.read('weights'))
      for (const record of records) foldWeights(weights, decodeRecord(record) as Logged<WeightsEvent>)
    return weightLine(weights, 'policy')
  }

  const updatesOf = async (policy: string): Promise<UpdateComputed[]> => {
    const found: UpdateComputed[] = []
    for await (const records of place.log.read('updates'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type === 'UpdateComputed' && event.policy === policy) found.push(event)
      }
    return found
  }

  test('an update with the default settings is accepted, with its figures', async (t) => {
    const line = await lineNow()
    const published = line.versions.get(1)?.published
    ok(
      published,
      `no version; rejected: ${JSON.stringify(line.rejected.map(({ event }) => [event.reason, event.figures]))}`,
    )
    const { finite, kl_parent, kl_base, content, length, repetition } = published.figures as Record<string, number>
    t.diagnostic(JSON.stringify(published.figures))
    equal(finite, 1)
    ok(kl_parent! > 0 && kl_parent! <= 0.03)
    ok(kl_base! > 0 && kl_base! <= 0.25)
    ok(content! >= line.started!.settings['content']! - 0.04)
    ok(length! > 1 && repetition! >= 0 && repetition! <= 0.5)
  })

  test('an update with ten times the learning rate is scaled back to its bound, and passes', async (t) => {
    await place.order<Line>('replay', { branch: 'fast', set: { lr: '0.03' }, until: '1' })
    const updates = await updatesOf('policy~fast')
    t.diagnostic(JSON.stringify(updates[0]?.figures))
    const { stepScale, klParent } = updates[0]?.figures ?? {}
    ok(stepScale! < 0.8 && klParent! <= 0.02 && klParent! > 0.012, `${stepScale} ${klParent}`)
  })

  test('without the bound it is rejected for its KL, and the head stays', async (t) => {
    const { head } = await lineNow()
    const set = { lr: '0.03', klParentMax: '1000', klBaseMax: '1000' }
    const { report } = await place.order<Line>('replay', { branch: 'spoiled', set, until: '1' })
    deepEqual([report.equal, report.versions], [null, 1])
    const verdict = await place.order<Promoted>('promote', { branch: 'spoiled' })
    const line = await lineNow()
    const rejected = line.rejected.at(-1)?.event
    t.diagnostic(JSON.stringify(rejected?.figures))
    deepEqual([verdict.accepted, verdict.reason, verdict.head, verdict.version], [false, 'kl_parent', head, head])
    equal(rejected?.reason, 'kl_parent')
    ok(rejected!.figures['kl_parent']! > 0.03)
    equal(line.head, head)
    equal(
      (
        await place.client.chat.completions
          .create({ model: 'policy', max_tokens: 4, messages: [{ role: 'user', content: 'What is 2 + 2?' }] })
          .withResponse()
      ).response.headers.get('x-instar-version'),
      String(head),
    )
  })

  test('of promotions at once one moves the head, and the others are told that it moved', async () => {
    const before = await lineNow()
    const said = await Promise.allSettled(
      ['fast', 'fast'].map((branch) => place.order<Promoted>('promote', { branch })),
    )
    const line = await lineNow()
    const made = said.flatMap((one) => (one.status === 'fulfilled' ? [one.value.accepted] : []))
    deepEqual(made, [true])
    for (const one of said)
      if (one.status === 'rejected') match(String(one.reason), /moved to version \d+, a promotion .*lost_race/s)
    const promoted = line.moves.slice(before.moves.length).filter(({ why }) => why === 'promotion')
    equal(promoted.length, 1)
    equal(line.last - before.last, line.moves.length - before.moves.length)
  })

  test('a rollback beside a promotion has the last word, or the promotion is told that the head moved', async () => {
    const before = await lineNow()
    const [promoted, rolledBack] = await Promise.allSettled([
      place.order<Promoted>('promote', { branch: 'fast' }),
      place.order<Promoted>('rollback', { version: 0 }),
    ])
    const line = await lineNow()
    ok(rolledBack.status === 'fulfilled')
    deepEqual([line.head, line.frozen], [0, true])
    const versions = line.last - before.last
    if (promoted.status === 'fulfilled') equal(versions, 1)
    else {
      match(String(promoted.reason), /moved to version 0 .*lost_race/s)
      equal(versions, 0)
    }
    await place.order('thaw', {})
  })

  test('learning continues after a rejection', async () => {
    const batches = (await lineNow()).verdictCount
    await talkTwice(place, 16)
    ok((await lineNow()).verdictCount > batches)
  })
})
