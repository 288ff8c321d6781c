import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { InstarError } from '@instar/events'
import { startRig } from '../../../../test/kit/gateway.ts'
import { adminToken, readAdminToken } from '@instar/process/admin-token'

const TOKEN = 'instar-admin-of-the-tests-0123456789'

const folderOf = async (t: TestContext): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-token-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}
const withToken = async (t: TestContext, mode = 0o600): Promise<string> => {
  const file = join(await folderOf(t), 'admin.token')
  await writeFile(file, `${TOKEN}\n`)
  await chmod(file, mode)
  return file
}
const notPrivate = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof InstarError, String(error))
  assert.equal(error.code, 'file_not_private')
  assert.match(error.message, message)
  return true
}

test('the admin token is created once, private to its owner, and an existing one is read and never overwritten', async (t) => {
  const folder = await folderOf(t)
  const file = join(folder, 'data', 'admin.token')
  const [one, two] = [adminToken(file), adminToken(file)]
  assert.match(one, /^instar-admin-[A-Za-z0-9_-]{43}$/)
  assert.equal(two, one)
  assert.deepEqual([(await stat(file)).mode & 0o777, (await stat(join(folder, 'data'))).mode & 0o777], [0o600, 0o700])
  assert.equal((await readFile(file, 'utf8')).trim(), one)
  await writeFile(file, 'short\n')
  assert.throws(() => adminToken(file), { code: 'data_unreadable' })
  assert.equal(await readFile(file, 'utf8'), 'short\n')
})

test('an admin token that other users can read or write is refused with its mode, and is not changed', async (t) => {
  for (const mode of [0o644, 0o640, 0o604, 0o620, 0o602, 0o666]) {
    const file = await withToken(t, mode)
    const message = new RegExp(`admin\\.token.* mode 0${mode.toString(8)}.*chmod 600`)
    assert.throws(() => readAdminToken(file), notPrivate(message))
    assert.throws(() => adminToken(file), notPrivate(message))
    assert.deepEqual([(await stat(file)).mode & 0o777, await readFile(file, 'utf8')], [mode, `${TOKEN}\n`])
  }
  for (const mode of [0o600, 0o400]) assert.equal(adminToken(await withToken(t, mode)), TOKEN)
})

test('an admin token of another user is refused', async (t) => {
  const file = await withToken(t)
  const own = (await stat(file)).uid
  assert.equal(readAdminToken(file, own), TOKEN)
  assert.throws(
    () => readAdminToken(file, own + 1),
    notPrivate(new RegExp(`belongs to the user ${own}, not ${own + 1}`)),
  )
})

test('an admin token that is a symbolic link, also to nothing, or no file, is refused', async (t) => {
  const file = await withToken(t)
  for (const target of [file, `${file}.missing`]) {
    const link = `${file}.link-${target.length}`
    await symlink(target, link)
    assert.throws(() => readAdminToken(link), notPrivate(/symbolic link/))
    assert.throws(() => adminToken(link), notPrivate(/symbolic link/))
    assert.equal(await readlink(link), target)
  }
  await assert.rejects(stat(`${file}.missing`), { code: 'ENOENT' })
  assert.throws(() => readAdminToken(join(file, '..')), notPrivate(/is not a file/))
})

test('a gateway does not start with an admin token that others can read', async (t) => {
  const file = await withToken(t, 0o644)
  const starting = startRig({ settings: { adminToken: null, adminTokenFile: file } })
  starting.then(
    (rig) => rig.stop(),
    () => undefined,
  )
  await assert.rejects(starting, { code: 'file_not_private' })
  await chmod(file, 0o600)
  await (await startRig({ settings: { adminToken: null, adminTokenFile: file } })).stop()
})
