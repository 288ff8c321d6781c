/**
 * The topics of the log: record types, key, writers, readers and partitions of each. Topics, record keys and Avro
 * subjects derive from this table, and `requireTopic` refuses access that it does not list. The records of the topic
 * `upgrades` state the record versions that all readers of the log support; newer versions are not written. The settings
 * of learning, the checkpoints of folds and the cuts of the log are on this topic too, since every process reads it from its start.
 */
import { InstarError } from './errors.ts'

/**
 * `key.field`: the field of the event whose value is the record's key; `key.constant`: one key for all records. `chain`:
 * each record names its predecessor (folds/chain.ts). `partitions`: default number.
 */
export const FLOW = {
  turns: {
    key: { field: 'session' },
    records: [
      'TurnCaptured',
      'TurnAborted',
      'TurnSampled',
      'FeedbackGiven',
      'SessionClosed',
      'SessionLinked',
      'ResponseDeleted',
    ],
    writers: ['gateway', 'scorer'],
    readers: ['scorer', 'gateway', 'trainer', 'publisher', 'projections'],
    chain: false,
    partitions: 8,
  },
  scores: {
    key: { field: 'policy' },
    records: ['TurnScored', 'TurnSkipped', 'ScoreRevised', 'EpisodeBegun', 'EpisodeEnded'],
    writers: ['scorer'],
    readers: ['scorer', 'trainer', 'publisher', 'gateway', 'projections'],
    chain: false,
    partitions: 4,
  },
  updates: {
    key: { field: 'policy' },
    records: ['BatchSealed', 'UpdateComputed', 'UpdateFailed', 'TrainerBound', 'TrainerScored', 'UpdateRequested'],
    writers: ['trainer'],
    readers: ['trainer', 'publisher', 'gateway', 'scorer', 'projections'],
    chain: true,
    partitions: 4,
  },
  weights: {
    key: { field: 'policy' },
    records: ['LineStarted', 'VersionPublished', 'VersionRejected', 'HeadMoved', 'LearningFrozen'],
    writers: ['publisher', 'gateway'],
    readers: ['gateway', 'scorer', 'publisher', 'trainer', 'projections'],
    chain: true,
    partitions: 4,
  },
  blobs: {
    key: { field: 'sha256' },
    records: ['BlobChunk'],
    writers: ['gateway', 'trainer', 'publisher'],
    readers: ['gateway', 'trainer', 'publisher', 'scorer'],
    chain: false,
    partitions: 4,
  },
  upgrades: {
    key: { constant: 'readers' },
    records: ['ReadersUpgraded', 'SettingsChanged', 'StateCheckpointed', 'LogCut'],
    writers: ['setup', 'up', 'scorer', 'trainer', 'publisher', 'checkpoint', 'archive'],
    readers: ['gateway', 'scorer', 'trainer', 'publisher', 'projections'],
    chain: false,
    partitions: 1,
  },
} as const

export type Topic = keyof typeof FLOW
export const TOPICS = Object.keys(FLOW) as Topic[]
/** The topics that a service may read. */
export type ReadBy<Service extends string> = {
  [T in Topic]: Service extends (typeof FLOW)[T]['readers'][number] ? T : never
}[Topic]

/** The services that read and write each topic. */
export type TopicAccess = Readonly<Record<Topic, { readers: readonly string[]; writers: readonly string[] }>>

/** Throws `internal` if the table does not list the service as a reader or writer of the topic. */
export const requireTopic = (flow: TopicAccess, topic: Topic, side: 'readers' | 'writers', service: string): void => {
  if (!flow[topic][side].includes(service))
    throw new InstarError(
      'internal',
      `${service} is not among the ${side} of ${topic} in the flow table (packages/events/src/flow.ts)`,
    )
}

export type RecordName = (typeof FLOW)[Topic]['records'][number]

/**
 * The newest version of each record type that this build supports; 1 for types that are not listed. All earlier versions
 * are supported as well, since a log is never rewritten.
 */
const NEWEST_VERSION: Readonly<Partial<Record<RecordName, number>>> = {
  TurnCaptured: 4,
  TurnAborted: 4,
  TurnSampled: 4,
  SessionClosed: 3,
  TurnScored: 2,
  TurnSkipped: 2,
  ScoreRevised: 2,
  BatchSealed: 2,
  UpdateComputed: 2,
  LineStarted: 2,
  VersionPublished: 3,
  VersionRejected: 3,
}
export const newestVersion = (name: RecordName): number => NEWEST_VERSION[name] ?? 1

/** Newest version by record type. Types that are absent must not be written. */
export type Versions = ReadonlyMap<string, number>

export const NEWEST: Versions = new Map(
  TOPICS.flatMap((topic) => FLOW[topic].records.map((name) => [name, newestVersion(name)])),
)

/**
 * The record versions that all builds released before the topic `upgrades` support, and the record of that topic. They
 * may be written to any log. This list must not be extended: newer versions must be announced on `upgrades`.
 */
export const RELEASED: Versions = new Map(
  Object.entries({
    TurnCaptured: 2,
    TurnAborted: 2,
    TurnSampled: 2,
    FeedbackGiven: 1,
    SessionClosed: 1,
    SessionLinked: 1,
    TurnScored: 1,
    TurnSkipped: 1,
    ScoreRevised: 1,
    BatchSealed: 1,
    UpdateComputed: 1,
    UpdateFailed: 1,
    LineStarted: 1,
    VersionPublished: 1,
    VersionRejected: 1,
    HeadMoved: 1,
    LearningFrozen: 1,
    BlobChunk: 1,
    ReadersUpgraded: 1,
  }),
)

/** Whether all readers of the log support this version of a record, so that it may be written. */
export const isReadable = (versions: Versions, name: RecordName, version = 1): boolean =>
  (versions.get(name) ?? 0) >= version
