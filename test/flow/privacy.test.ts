/** Where text of a conversation may appear beyond the log: verdicts, hints, SQL and log lines. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { decodeRecord, encodeEvent, readWritten, type ScoresEvent } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { startPostgres, startProjections } from '@instar/projections'
import { createScorer, scorerConfig } from '@instar/scorer'
import { hintFor } from '../../services/scorer/src/core/hints.ts'
import { publicHint } from '../../services/scorer/src/core/private-values.ts'
import { temporaryFolder, withClient } from '../kit/database.ts'
import { captured, feedback, turnNamed, type Said } from '../kit/scored-history.ts'

const CANARY = 'marmalade'
const CARD = '4111 1111 1111 1111'
const PRIVATE = [
  CARD,
  'sk-proj-Ab12Cd34Ef56Gh78Ij90',
  'ann@example.org',
  'https://intranet.example/ann?token=1',
  '+44 20 7946 0958',
  'DE89 3704 0044 0532 0130 00',
]

/** The same numbers as people and programs write them: other blanks, hyphens, separators and digits. */
const WRITTEN = [
  '4111\u00A01111\u00A01111\u00A01111',
  '4111\u20111111\u20111111\u20111111',
  '4111/1111/1111/1111',
  '4111_1111_1111_1111',
  '4111, 1111, 1111, 1111',
  '4111 - 1111 - 1111 - 1111',
  '3782, 822463, 10005',
  '\uFF14111 1111 1111 1111',
  '\u0664\u0661\u0661\u0661 \u0661\u0661\u0661\u0661 \u0661\u0661\u0661\u0661 \u0661\u0661\u0661\u0661',
  '+44\u00A020\u00A07946\u00A00958',
  'ann＠example.org',
  // Beside another number: how often, a date, a check number, a position in a list.
  '4111111111111111 3',
  '1 4111111111111111',
  '4111111111111111-1',
  '4111111111111111 9/27',
  '4111/1111/1111/1111/123',
  '2027, 4111, 1111, 1111, 1111',
  '4111·1111·1111·1111',
  '(4111) (1111) (1111) (1111)',
  // Characters that are not seen: zero-width space, joiner and non-joiner, word joiner, soft hyphen, variation selector.
  '4\u200B111\u200C1111\u200D1111\u2060111\u00AD1',
  '4111\u034F1111\uFE0F1111\u180E1111',
  'ann\u200B@exam\u200Bple.org',
  'https\u200B://intranet\u2060.example/ann',
  '+44\u200B 20\u200B 7946\u200B 0958',
  '4\uFE0F\u20E31\uFE0F\u20E311111111111111',
  // Digits of other scripts: Devanagari, Bengali, Thai, Tibetan, Khmer, N’Ko, full-width, bold, Adlam.
  ...[0x0966, 0x09e6, 0x0e50, 0x0f20, 0x17e0, 0x07c0, 0xff10, 0x1d7ce, 0x1e950].map((zero) =>
    CARD.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit))),
  ),
]

test('hints omit sentences with a card number, key, address or telephone number and keep other sentences and numbers', () => {
  for (const value of [...PRIVATE, ...WRITTEN]) {
    assert.equal(publicHint(`The right answer is ${value}.`), null, value)
    assert.equal(publicHint(`The right answer is ${value}. Answer briefly.`), 'Answer briefly.', value)
  }
  for (const hint of [
    'The right answer is 1789.',
    'The right answer is 3.14159265358979.',
    'The right answer is 2026-11-22.',
    'The right answer is 1,234,567.',
    'The right answer is 4111, 1111, 1111, 1112.',
    'The right answer is 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.',
    'Say it is ½ of 10 ﬁles\u00A0here.',
    'सही उत्तर १७८९ है.',
    'Soft\u00ADware of 4111\u200B and 1111.',
    'The right answer is Paris-Charles de Gaulle.',
    'Use a list of 10 to 20 items, e.g. with dates.',
    'Answer in plain text. Say it in 2 sentences!',
  ])
    assert.equal(publicHint(hint), hint, hint)
  assert.equal(publicHint(null), null)
  assert.equal(publicHint('\uFDFA'.repeat(1000)), null, 'a text that is much longer in usual characters')
  assert.ok(hintFor('fix_value', '', 'x'.repeat(60), 't')?.includes('x'.repeat(60)))
  assert.equal(hintFor('fix_value', '', 'x'.repeat(61), 't'), null)
})

/** Verdicts of a judge that quote their input. */
const REPLIES: readonly ((asked: string) => { status: number; body: string })[] = [
  (asked) => ({ status: 401, body: `{"error": {"message": ${JSON.stringify(asked)}}}` }),
  (asked) => ({ status: 400, body: asked }),
  (asked) => ({ status: 503, body: asked }),
  (asked) => ({ status: 200, body: `${CANARY} ${asked}` }),
  () => ({ status: 200, body: JSON.stringify({ choices: [{ message: { content: `${CANARY} is what they said` } }] }) }),
  () => ({
    status: 200,
    body: JSON.stringify({
      choices: [
        {
          message: {
            content: JSON.stringify({ verdict: 'bad', hint: `The right answer is ${CARD}. Answer with warmth.` }),
          },
        },
      ],
    }),
  }),
]

test('no table, hint or log line holds text of a person, whatever a judge returns', { timeout: 120_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const said: string[] = []
  let kind = 0
  const server = createServer((request, response) => {
    let text = ''
    request
      .on('data', (piece) => {
        text += String(piece)
      })
      .on('end', () => {
        const { status, body } = REPLIES[kind]!(text)
        response.writeHead(status, { 'content-type': 'application/json' }).end(body)
      })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.after(() => server.close())
  const log = openMemoryLog()
  const scores: ScoresEvent[] = []
  let wanted = Promise.withResolvers<void>()
  await log.subscribe({
    topics: ['scores'],
    group: 'watch',
    from: 'start',
    handle: (records) => {
      for (const record of records) scores.push(decodeRecord(record).event as ScoresEvent)
      wanted.resolve()
    },
  })
  const llm = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    model: 'm',
    votes: 1,
    firstRetryMs: 1,
    giveUpMs: 5,
    failures: 0,
  }
  const config = scorerConfig.parse({ llm, agreement: 1 })
  const scorer = createScorer(
    { log, now: Date.now, onFatal: (error) => said.push(String(error)), logLine: (line) => said.push(line) },
    config,
  )
  await scorer.start()
  const user = (content: string): Said => ({ role: 'user', content })
  for (kind = 0; kind < REPLIES.length; kind += 1) {
    wanted = Promise.withResolvers<void>()
    const first = captured({
      session: `s${kind}`,
      messages: [user(`${CANARY} ${CARD} ${kind}`)],
      answer: `${CANARY} answers`,
      at: 1,
      name: 't0',
    })
    const then = captured({
      session: `s${kind}`,
      messages: [
        user(`${CANARY} ${CARD} ${kind}`),
        { role: 'assistant', content: `${CANARY} answers` },
        user(`No, that is wrong, the right answer is ${CARD}. ${CANARY}`),
      ],
      answer: 'Sorry.',
      at: 2,
      name: 't1',
    })
    await log.append(
      [first, then].map((event) => {
        const { id: _, ...record } = encodeEvent(event)
        return record
      }),
    )
    await wanted.promise
  }
  wanted = Promise.withResolvers<void>()
  const { id: _, ...given } = encodeEvent(
    feedback('s0', turnNamed('s0', 't0'), -1, 3, 'f', `No, the right answer is ${CARD}. ${CANARY}`),
  )
  await log.append([given])
  await wanted.promise
  await scorer.stop()
  assert.equal(scores.length >= REPLIES.length, true)
  const hinted = scores.flatMap((score) =>
    score.type === 'TurnScored' && score.hint !== null ? [readWritten(score.hint)] : [],
  )
  assert.ok(hinted.includes('Answer with warmth.'), hinted.join('|'))

  const projections = startProjections({ log, connection: postgres.owner, logLine: (line) => said.push(line) })
  await projections.caughtUp()
  await projections.stop()
  const kept = await withClient(postgres.owner, async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(
      `select quote_ident(tablename) as name from pg_tables where schemaname = 'public'`,
    )
    const texts: string[] = []
    for (const { name } of tables)
      texts.push(
        ...(await client.query<{ row: string }>(`select t::text as row from ${name} t`)).rows.map(({ row }) => row),
      )
    return texts
  })
  assert.ok(kept.length > 2 * REPLIES.length, String(kept.length))
  for (const text of [...kept, ...said]) {
    assert.ok(!text.includes(CANARY), text)
    // A hash may have four of its digits, and none has a blank.
    assert.ok(!text.includes(CARD.slice(0, 9)), text)
  }
})
