import { noNote, type Method } from './method.ts'

export const none: Method = {
  name: 'none',
  summary: 'the base as it is',
  loss: null,
  byDefault: true,
  separate: false,
  note: noNote,
}
