/** A gateway with an empty disk starts from a checkpoint: over HTTP, on the embedded log, which was cut and has no archive. */
import { deepEqual, equal, match, notEqual, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog, openSnapshots, writeCheckpoint } from '@instar/log'
import { archiveTo, cutBelow } from '../../../../test/kit/event-log/cut-log.ts'
import { startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { captured } from '../../../../test/kit/scored-history.ts'
import { gatewayFold } from './stored-fold.ts'

type Said = { role: 'user' | 'assistant'; content: string }

let answers = 0
/** Fewer than the log has. */
const MEMORY = { sessions: 4, turns: 16 }

const ask = async (rig: Rig, said: readonly Said[], user: string, session?: string): Promise<[Said[], string]> => {
  const headers: Record<string, string> = session === undefined ? {} : { 'x-session-id': session }
  const messages = [...said, USER(user) as Said]
  const answer = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages }, headers })
  equal(answer.status, 200, await answer.clone().text())
  const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] }
  const answered: Said = { role: 'assistant', content: choices[0]!.message.content }
  return [[...messages, answered], answer.headers.get('x-instar-turn-id')!]
}

test('on a cut log without an archive it knows the conversations before the checkpoint, and not without it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-checkpoint-start-'))
  const log = await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() })
  const rigs: Rig[] = []
  t.after(async () => {
    await Promise.all(rigs.map((rig) => rig.stop()))
    await log.close()
    rmSync(folder, { recursive: true })
  })
  const files = join(folder, 'checkpoints')
  const start = async (place: string, checkpoints?: string): Promise<{ rig: Rig; lines: string[] }> => {
    const lines: string[] = []
    const options = { records: 20, ms: Infinity, logLine: (line: string) => void lines.push(line) }
    const snapshots = openSnapshots(join(folder, place), { ...options, ...(checkpoints ? { checkpoints } : {}) })
    const script = (): string => `Answer ${(answers += 1)} of mine.`
    const rig = await startRig({ log, script, settings: MEMORY, ports: { snapshots } })
    rigs.push(rig)
    return { rig, lines }
  }
  const { rig: first } = await start('first')
  const [unnamed, begun] = await ask(first, [], 'What is the capital of France?')
  const [named, other] = await ask(first, [], 'And of Spain?', 'a-session')
  // Elsewhere, so that the two are in no gateway's memory.
  const elsewhere = (i: number) =>
    captured({
      session: `s${i >> 3}`,
      messages: [{ role: 'user', content: `What is ${i}?` }],
      answer: `It is ${i}.`,
      at: Date.now() + i,
      name: i.toString(16).padStart(8, '0'),
      policy: 'elsewhere',
    })
  await log.append(Array.from({ length: 1200 }, (_, i) => encodeEvent(elsewhere(i))))
  const [late, kept] = await ask(first, [], 'What is new?')
  await first.stop()
  const written = await writeCheckpoint(log, gatewayFold, {
    policy: 'policy',
    folder: files,
    now: () => 1,
    observer: { onProgress: () => undefined },
    signal: new AbortController().signal,
  })
  deepEqual([written!.name, written!.written], ['gateway.policy.turns', true])
  const { rig: second } = await start('first')
  const [later, behind] = await ask(second, [], 'What is behind it?')
  await second.stop()
  const sessionOf = async (turn: string): Promise<string> => {
    for await (const records of log.read('turns', { from: await log.starts!(['turns']) }))
      for (const { key, payload } of records) if (Buffer.from(payload).includes(turn)) return key
    return turn.slice(0, turn.lastIndexOf('.'))
  }

  const archive = join(folder, 'archive')
  const manifest = await archiveTo(log, archive, { schemas: schemaTexts() })
  const { turns: starts } = await cutBelow(log, { turns: 1024 }, { archive, manifest })
  ok(
    Object.values(starts!).some((offset) => offset > 1000),
    JSON.stringify(starts),
  )
  await rejects(start('without'), { code: 'log_cut' })

  const { rig, lines } = await start('second', files)
  deepEqual(lines, ['gateway.policy.turns: starts from the checkpoint of 1970-01-01T00:00:00.001Z'])
  // Two names of each of 1,200 turns elsewhere, and of the four here.
  match(await (await rig.fetch('/metrics')).text(), /^instar_names_held(\{[^}]*\})? 2408$/m)
  for (const [said, turn] of [
    [late, kept],
    [later, behind],
  ] as const) {
    const [, next] = await ask(rig, said, 'And of Italy?')
    equal(await sessionOf(next), await sessionOf(turn))
  }
  // What it asked was cut, so that nothing tells that this is the same conversation.
  const [, unknown] = await ask(rig, unnamed, 'And of Italy?')
  notEqual(await sessionOf(unknown), await sessionOf(begun))
  const [, goneOn] = await ask(rig, named, 'And of Portugal?', 'a-session')
  equal(await sessionOf(goneOn), await sessionOf(other))
  await rig.stop()

  // What was made of the checkpoint is in the snapshot.
  const again = await start('second', files)
  deepEqual(again.lines, [])
  const [, last] = await ask(again.rig, late, 'And of Greece?')
  equal(await sessionOf(last), await sessionOf(kept))
  await again.rig.stop()
  deepEqual(
    readdirSync(join(folder, 'second')).filter((name) => /checkpoint|filling/.test(name)),
    [],
  )

  const path = join(files, readdirSync(files)[0]!)
  const bytes = readFileSync(path)
  bytes[bytes.length >> 1]! ^= 1
  writeFileSync(path, bytes)
  const said: string[] = []
  const snapshots = openSnapshots(join(folder, 'third'), {
    checkpoints: files,
    logLine: (line) => void said.push(line),
  })
  await rejects(startRig({ log, ports: { snapshots } }), { code: 'log_cut' })
  match(said.join('\n'), /^gateway\.policy\.turns: the checkpoint of .* is not used: .* does not match its sha256$/)
})
