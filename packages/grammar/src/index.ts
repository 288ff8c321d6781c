export { callMarkup } from './call-markup.ts'
export { keyOf, type Constraint } from './constraint.ts'
export { Constrainer, type ConstraintCursor } from './constrainer.ts'
export { ebnfOf } from './ebnf.ts'
