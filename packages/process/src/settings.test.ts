import { deepEqual, doesNotMatch, equal, match, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events/errors'
import { readSettings } from './settings.ts'
import { registryOf } from './shell/access.ts'

const refusalOf = (env: Readonly<Record<string, string | undefined>>): string => {
  try {
    readSettings(env, '/')
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_request') return error.message
    throw error
  }
  return ''
}

test('the refusal of a variable does not show a secret: the value of a key, or the user or query of a URL', () => {
  for (const env of [
    { INSTAR_ADMIN_TOKEN: 's3cret' },
    { INSTAR_ENGINE: 'https://user:s3cret@host/v1' },
    { INSTAR_ENGINE: 'https://host/v1?key=s3cret' },
    { INSTAR_LOG: 'kafka+ssl://user:s3/c,r et@host:9092, user:s3cret@other:9092' },
    { INSTAR_REGISTRY: '//user:s3cret@host' },
    { INSTAR_JUDGE_URL: 'user s3cret@host' },
    { INSTAR_GATEWAY: '//user:s3cret@host' },
    { INSTAR_ORIGINS: 'https://user:s3cret@host' },
  ]) {
    const [name] = Object.keys(env)
    const message = refusalOf(env)
    match(message, new RegExp(`^${name}[=:]`))
    doesNotMatch(message, /s3|r et/)
  }
  equal(refusalOf({ INSTAR_PORT: '99999' }), 'INSTAR_PORT=99999: Too big: expected number to be <=65535')
})

test('an address with a user is refused: no request would send it, and messages show the address', () => {
  for (const [env, instead] of [
    [{ INSTAR_ENGINE: 'vllm+http://a/v1,http://user:s3cret@host/v1' }, 'INSTAR_ENGINE_KEY'],
    [{ INSTAR_JUDGE_URL: 'https://user:s3cret@host/v1' }, 'INSTAR_JUDGE_KEY'],
    [{ INSTAR_GATEWAY: 'https://s3cret@host' }, 'INSTAR_KEY'],
    [{ INSTAR_LOG: 'kafka://user:s3cret@host:9092' }, 'INSTAR_KAFKA_USERNAME'],
  ] as const) {
    const message = refusalOf(env)
    match(message, new RegExp(`contains a user, .* set ${instead}`))
    doesNotMatch(message, /s3cret/)
  }
  equal(refusalOf({ INSTAR_ENGINE: 'openai+http://host/v1', INSTAR_JUDGE_URL: 'https://host/a@b/v1' }), '')
})

test('the URL of a registry with a user, a password or both is refused, since messages show it', () => {
  const registryAt = (INSTAR_REGISTRY: string): unknown =>
    registryOf(readSettings({ INSTAR_LOG: 'kafka://host:9092', INSTAR_REGISTRY }, '/'))
  for (const user of ['user:s3cret', 'user', ':s3cret'])
    throws(
      () => registryAt(`http://${user}@host`),
      (error) => error instanceof InstarError && error.code === 'bad_request' && !/s3cret/.test(error.message),
    )
  deepEqual(registryAt('http://host'), { url: 'http://host' })
})
