/** Files of checkpoints: whole or not there. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { linkNew, packState, removeOthers, stateFault, stateFile, unpackState } from './files.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-state-files-'))
after(() => rmSync(root, { recursive: true, force: true }))

test('a state comes back byte for byte; a changed, shortened or missing file is named and not used', async () => {
  const [source, folder, to] = [join(root, 'state.db'), join(root, 'files'), join(root, 'again.db')]
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * i) % 251))
  writeFileSync(source, bytes)
  const state = await packState(source, folder, 'trainer.policy')
  const path = stateFile(folder, state)
  assert.equal(statSync(path).size, state.bytes)
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  assert.equal(await unpackState(folder, state, to), null)
  assert.ok(readFileSync(to).equals(bytes))

  const packed = readFileSync(path)
  const flipped = Buffer.from(packed)
  flipped[packed.length >> 1]! ^= 1
  writeFileSync(path, flipped)
  assert.match((await unpackState(folder, state, to)) ?? '', /does not match its sha256/)
  writeFileSync(path, packed.subarray(0, -1))
  assert.match((await stateFault(folder, state)) ?? '', /has \d+ bytes, not \d+/)
  rmSync(path)
  assert.match((await stateFault(folder, state)) ?? '', /is missing/)
})

test('recorded older files of a state, old unrecorded ones and the parts of processes that have ended are removed, others stay', async () => {
  const folder = join(root, 'kept')
  const files = []
  for (const text of ['a', 'b', 'c', 'unrecorded', 'unrecorded and old']) {
    writeFileSync(join(root, text), text)
    files.push(await packState(join(root, text), folder, 'trainer.policy'))
  }
  writeFileSync(join(root, 'other'), 'other')
  const other = await packState(join(root, 'other'), folder, 'trainer.policy.extra')
  writeFileSync(join(folder, 'trainer.policy.999999999.part'), 'left')
  writeFileSync(join(folder, `trainer.policy.${process.pid}.part`), 'being written')
  const old = new Date(Date.now() - 3_700_000)
  utimesSync(stateFile(folder, files[4]!), old, old)
  utimesSync(stateFile(folder, files[2]!), old, old)
  await removeOthers(folder, 'trainer.policy', { kept: files.slice(1, 3), recorded: files.slice(0, 3) })
  // The file of a process that has not appended its record yet stays.
  const kept = [...files.slice(1, 4), other].map((file) => stateFile(folder, file))
  assert.deepEqual(
    readdirSync(folder)
      .map((name) => join(folder, name))
      .sort(),
    [...kept, join(folder, `trainer.policy.${process.pid}.part`)].sort(),
  )
})

test('a name that is taken, or has a write-ahead log, is not given away', () => {
  const [file, taken, log] = [join(root, 'new'), join(root, 'taken'), join(root, 'logged')]
  writeFileSync(file, 'new')
  writeFileSync(taken, 'old')
  writeFileSync(`${log}-wal`, '')
  for (const name of [taken, log, join(root, 'free')]) linkNew(file, name)
  assert.equal(readFileSync(taken, 'utf8'), 'old')
  assert.deepEqual(
    readdirSync(root).filter((name) => name === 'logged' || name === 'free'),
    ['free'],
  )
})
