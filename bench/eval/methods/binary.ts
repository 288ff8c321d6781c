import { noNote, type Method } from './method.ts'

const learned = { loss: 'binary', note: noNote } as const

export const binary: readonly Method[] = [
  { ...learned, name: 'binary', separate: false, byDefault: true, summary: 'rewards alone, one adapter for all' },
  {
    ...learned,
    name: 'binary-separate',
    separate: true,
    byDefault: false,
    summary: 'rewards alone, one adapter for each person',
  },
]
