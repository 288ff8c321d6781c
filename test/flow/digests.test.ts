/** The scorer's digests are on the log, where its folds need them, and not in SQL, where they could be guessed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JudgeVerdict } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { readOnlyQuery, startPostgres, startProjections } from '@instar/projections'
import { askedIn, askedOf, askedVerdict, askerOf } from '../../services/scorer/src/core/asked-alone.ts'
import { claimIn, claimOf, LEAST_AGREEMENT, withAgreement } from '../../services/scorer/src/core/claims.ts'
import { sameOf, seenIn, seenVerdict } from '../../services/scorer/src/core/duplicates.ts'
import type { Evidence, Judged } from '../../services/scorer/src/core/judgement.ts'
import { opinionIn, recordVerdict } from '../../services/scorer/src/core/own-record.ts'
import { temporaryFolder, withClient } from '../kit/database.ts'
import { records, scored, turn, T0 } from '../kit/projected-history.ts'

const EVIDENCE = {
  turn: 't',
  request: 'What is 7 plus 6?',
  answer: 'It is 12.',
  calls: false,
  next: { user: 'No, it is 13.', tools: '' },
} as Evidence
const ASKER = { key: 'anna', subject: 'anna', session: 's', policy: 'policy' }
const OPINION: JudgeVerdict = { judge: 'llm', value: -1, note: 'They said 13; seen 0123456789abcdef.' }

/** As a judgement leaves them: an opinion, a claim with rivals or without, the question and its asker, the repetition. */
const verdictsOf = (rivals: boolean): JudgeVerdict[] => {
  const claim = claimOf('13', EVIDENCE)
  const table = new Map(rivals ? [[`policy ${claim.about}`, { at: 0, values: { other: ['one', 'two'] } }]] : [])
  const result = { reward: -1, claim, verdicts: [OPINION] } as unknown as Judged
  const { verdicts } = withAgreement(table, ASKER, result, LEAST_AGREEMENT)
  const asker = askerOf(ASKER)
  return [
    ...verdicts,
    askedVerdict(askedOf(EVIDENCE), asker),
    seenVerdict(sameOf(EVIDENCE)!),
    recordVerdict({ praise: false, words: 3, form: '0000' }, asker.subject),
  ]
}

test('SQL has the judges, opinions and numbers of notes, and no digest; rows of an earlier build are made again', async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const turns = [1, 2].map((n) => turn({ session: `s${n}`, name: `t${n}`, says: `It is ${n}.`, at: T0 + n * 1000 }))
  const events = turns.flatMap((of, n) => [of, scored(of, -1, { verdicts: verdictsOf(n === 1) })])
  for (const rivals of [false, true]) {
    const verdicts = verdictsOf(rivals)
    assert.ok(
      opinionIn(verdicts) && claimIn(verdicts) && askedIn(verdicts) && /^[0-9a-f]{16}$/.test(seenIn(verdicts) ?? ''),
      'on the log',
    )
  }
  const log = openMemoryLog()
  await log.append(records(events))
  const notes = async () => {
    const projections = startProjections({ log, connection: postgres.owner })
    await projections.caughtUp()
    await projections.stop()
    return (await readOnlyQuery(postgres.reader, 'select verdicts from scores order by at')).map(({ verdicts }) =>
      (verdicts as JudgeVerdict[]).map(({ judge, note }) => `${judge}: ${note}`),
    )
  }
  const rest = ['asked: ', 'seen: ', 'record: ']
  const wanted = [
    [`llm: ${OPINION.note}`, 'values: withheld; 1 of 2 people', ...rest],
    [`llm: ${OPINION.note}`, 'values: withheld; 1 of 2 people, 2 for another', ...rest],
  ]
  assert.deepEqual(await notes(), wanted)
  await withClient(postgres.owner, async (client) => {
    await client.query('update all_scores set verdicts = $1::jsonb', [JSON.stringify(verdictsOf(false))])
    await client.query('update offsets set rules = 3')
  })
  assert.deepEqual(await notes(), wanted, 'after the upgrade')
  // That of a whole request would confirm a question that somebody guesses.
  assert.deepEqual(await readOnlyQuery(postgres.reader, 'select digest from turns'), [{ digest: '' }, { digest: '' }])
  assert.ok(
    turns.every(({ digest }) => /^[0-9a-f]{64}$/.test(digest)),
    'on the log',
  )
})
