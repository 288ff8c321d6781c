/** Everyday topics for a general model. The two lists share none: one is talked about, the other is measured. */

const TALKED = [
  'sleep better',
  'save money on food',
  'learn a new language',
  'keep houseplants alive',
  'remember names',
  'start running',
  'write a letter of application',
  'clean a kitchen',
  'plan a birthday party',
  'make new friends in a new city',
  'study for an exam',
  'cook with vegetables',
  'grow tomatoes',
  'calm down before a speech',
  'pack for a long trip',
  'look after a cat',
  'read more books',
  'get up early',
  'teach children to count',
  'repair an old bicycle',
  'take better photographs',
  'keep a diary',
  'buy a used car',
  'paint a room',
  'drink more water',
  'train a puppy',
  'find a new hobby',
  'work from home',
  'stay warm in winter',
  'use less electricity',
  'bake bread',
  'learn to swim',
  'organise a desk',
  'choose a laptop',
  'write a short story',
  'stay fit without a gym',
  'move to another town',
  'welcome a new colleague',
  'camp in the mountains',
  'spend less time on the phone',
] as const

const MEASURED = [
  'learn to play the guitar',
  'keep a garden in a dry summer',
  'prepare a job interview',
  'travel with a small child',
  'keep food fresh',
  'improve your handwriting',
  'look after your back',
  'learn to draw',
  'give a present to a teacher',
  'ride a bicycle in traffic',
  'clean old windows',
  'write a thank-you card',
  'plan a week of meals',
  'help a neighbour',
  'set up a fish tank',
  'enjoy a rainy day',
] as const

/**
 * Question `index` of the conversations, or of the measurement, in one of a person's `forms`, which name the topic as
 * `{}`. Questions repeat after every topic has had every form.
 */
export const questionAt = (list: 'talked' | 'measured', index: number, forms: readonly string[]): string => {
  const topics = list === 'talked' ? TALKED : MEASURED
  // 7 has no factor in common with the numbers of topics, so that neighbouring questions differ in topic and form.
  const topic = topics[(index * 7) % topics.length] as string
  const form = forms[(Math.floor(index / topics.length) + index) % forms.length] as string
  return form.replace('{}', topic)
}
