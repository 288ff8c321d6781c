/**
 * The spine: every topic, what is on it, who writes and who reads. Topics, Avro subjects, docs and tests
 * derive from this table.
 */
export const FLOW = {
  turns: {
    key: 'session',
    records: ['TurnCaptured', 'TurnAborted', 'TurnSampled', 'FeedbackGiven', 'SessionClosed', 'SessionLinked'],
    writers: ['gateway', 'scorer'],
    readers: ['scorer', 'gateway', 'trainer', 'publisher', 'projections'],
    chain: false,
    partitions: 8,
  },
  scores: {
    key: 'policy',
    records: ['TurnScored', 'TurnSkipped', 'ScoreRevised'],
    writers: ['scorer'],
    readers: ['scorer', 'trainer', 'publisher', 'projections'],
    chain: false,
    partitions: 4,
  },
  updates: {
    key: 'policy',
    records: ['BatchSealed', 'UpdateComputed', 'UpdateFailed'],
    writers: ['trainer'],
    readers: ['trainer', 'publisher', 'projections'],
    chain: true,
    partitions: 4,
  },
  weights: {
    key: 'policy',
    records: ['LineStarted', 'VersionPublished', 'VersionRejected', 'HeadMoved', 'LearningFrozen'],
    writers: ['publisher', 'gateway'],
    readers: ['gateway', 'publisher', 'trainer', 'projections'],
    chain: true,
    partitions: 4,
  },
  blobs: {
    key: 'sha256',
    records: ['BlobChunk'],
    writers: ['gateway', 'trainer', 'publisher'],
    readers: ['gateway', 'trainer', 'publisher', 'scorer'],
    chain: false,
    partitions: 4,
  },
} as const

export type Topic = keyof typeof FLOW
export const TOPICS = Object.keys(FLOW) as Topic[]
export type RecordName = (typeof FLOW)[Topic]['records'][number]

/** The version in which a record is written; 1 where it is not named. All up to it are read, since a log is never rewritten. */
const WRITTEN: Readonly<Partial<Record<RecordName, number>>> = { TurnCaptured: 2, TurnAborted: 2, TurnSampled: 2 }
export const writtenVersion = (name: RecordName): number => WRITTEN[name] ?? 1
