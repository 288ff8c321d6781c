import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { definitionOf } from './models.ts'
import { bearer, settingsOf, transportUrl } from './settings.ts'

test('base URLs with and without /v1 are equivalent', () => {
  for (const baseUrl of ['http://h:1', 'http://h:1/', 'http://h:1/v1', ' http://h:1/v1/ '])
    equal(settingsOf({ baseUrl }).baseUrl, 'http://h:1/v1')
  equal(settingsOf().baseUrl, 'http://127.0.0.1:30000/v1')
  equal(transportUrl(settingsOf({ baseUrl: 'http://h:1', api: 'anthropic-messages' })), 'http://h:1')
  equal(transportUrl(settingsOf({ baseUrl: 'http://h:1', api: 'openai-responses' })), 'http://h:1/v1')
})

test('a key is sent as a bearer token; without a key there is no header', () => {
  deepEqual(bearer(settingsOf({ apiKey: 'sk-1' })), { authorization: 'Bearer sk-1' })
  deepEqual(bearer(settingsOf({ apiKey: '' })), {})
})

test('maxTokens defaults to 4096, at most a quarter of the context', () => {
  equal(definitionOf('policy', 100_000, settingsOf()).maxTokens, 4096)
  equal(definitionOf('policy', 512, settingsOf()).maxTokens, 128)
  equal(definitionOf('policy', 512, settingsOf({ maxTokens: 300 })).maxTokens, 300)
})
