import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claim, initialEpisodes, running, touchEpisode, type Episode } from './episodes.ts'

const episode = (uuid: string, key: string | null): Episode => ({
  uuid,
  client: 'c',
  key,
  type: 'train',
  task: '',
  idleMs: 1000,
  claimedAt: 0,
  lastAt: 0,
  calls: 0,
  outcome: 'running',
})

test('the episodes of one key beyond the limit evict its own oldest and none of another', () => {
  const episodes = initialEpisodes()
  claim(episodes, episode('other', 'b'), 3)
  for (let i = 0; i < 5; i += 1) claim(episodes, episode(`a${i}`, 'a'), 3)
  const left = (key: string): string[] => running(episodes, key, 0).map(({ uuid }) => uuid)
  assert.deepEqual([left('a'), left('b')], [['a2', 'a3', 'a4'], ['other']])
})

test('a claim does not look at the episodes of other keys', () => {
  const episodes = initialEpisodes()
  const looked = new Set<string>()
  const watched = (uuid: string): Episode => {
    const one = episode(uuid, 'b')
    return Object.defineProperty(one, 'key', { get: () => (looked.add(uuid), 'b') })
  }
  for (let i = 0; i < 1000; i += 1) claim(episodes, watched(`b${i}`), 1000)
  looked.clear()
  for (let i = 0; i < 10; i += 1) claim(episodes, episode(`a${i}`, 'a'), 3)
  assert.equal(looked.size, 0)
  assert.equal(running(episodes, 'a', 0).length, 3)
  assert.equal(episodes.byId.size, 1003)
})

test('an episode lives on by requests of the key that claimed it alone', () => {
  const episodes = initialEpisodes()
  const one = { ...episode('e', 'a'), task: 'maze' }
  claim(episodes, one)
  for (const key of ['b', null]) assert.equal(touchEpisode(episodes, { uuid: 'e', key }, 5), undefined)
  assert.deepEqual([one.lastAt, one.calls], [0, 0])
  assert.equal(touchEpisode(episodes, { uuid: 'e', key: 'a' }, 9)?.task, 'maze')
  assert.deepEqual([one.lastAt, one.calls], [9, 1])
})
