/** The right answer, where a correction says it: "it is 12", "should have been Oslo", "12, not 13". */

/** What counts as saying that this is the answer; `sure` ones need not look like a value. */
const FORMS: readonly { pattern: RegExp; sure: boolean }[] = [
  {
    sure: false,
    pattern:
      /(?:^|[,.;:]\s*|\b(?:but|no|sorry|think|believe|that) )([\p{L}\d][\p{L}\d.,:' -]{0,40}?) (?:is|was|would be|would have been) (?:the |a )?(?:right|correct|actual|real|true|proper) (?:answer|one|result|number|value|solution|name|order)\b/iu,
  },
  {
    sure: true,
    pattern:
      /\b(?:right|correct|actual|real|true|proper|expected) (?:answer|one|result|number|value|solution|name|order|spelling|sum|total|capital|word|response)(?: here)?(?:\s+(?:is|was|would be|should be|should have been|would have been)|\s*[:=])\s+(?:actually |really )?(.+)/iu,
  },
  {
    sure: false,
    pattern:
      /\b(?:it|that|this|answer|result|one|sum|total|number|value|capital|order)\s+(?:should|ought to|must|was supposed to|is supposed to|needs to|has to|would)\s+(?:have been|be|say|read|equal)\s+(?:actually |really )?(.+)/iu,
  },
  {
    sure: false,
    pattern:
      /\b(?:it|that|this|answer|result|sum|total|number|value|capital|order)(?:'s|’s| is| was| equals| makes| comes to| comes out (?:at|as|to)| works out (?:at|as|to))\s+(?:actually |really |in fact |of course |definitely )?(.+)/iu,
  },
  {
    sure: false,
    pattern:
      /\b(?:i|we) (?:get|got|count|counted|make it|calculate[d]?|believe it(?:'s| is)|think it(?:'s| is)|meant|mean|said|was looking for|was after|would say)\s+(.+)/iu,
  },
  {
    sure: false,
    pattern:
      /\b(?:supposed to be|should be|ought to be|should have been|must be|correct is|right is|actually|rather|namely|instead of \S+|i'm pretty sure it's)[:,]?\s+(.+)/iu,
  },
  { sure: false, pattern: /\bnot\s+[^,.;!?\n]{1,40}?\s*,?\s*(?:but|it's|it is|rather)\s+(?:rather )?(.+)/iu },
  {
    sure: false,
    pattern:
      /(?:^|[,.!?:;]\s*|\bno\b[,.]?\s+|=\s*)((?:-?\d[\d.,:/]*\d|-?\d+|\p{Lu}\p{L}+)(?:\s+\p{L}+)?)\s*,?\s+(?:and )?not\b/u,
  },
  { sure: true, pattern: /^\W*(?:the )?(?:right|correct|actual|real|correction|corrected)\s*[:=]\s*(.+)/iu },
  { sure: false, pattern: /(?:^|\s)(?:=|answer:|correct:|correction:)\s*(.+)/iu },
]

const ENDS =
  /[;!?\n]|\.(?:\s|$)|,\s*(?!\d)(?=not\b|and not\b|rather than|instead|please|right|ok|okay|no\b|you\b|i\b|sorry|so\b|as\b|because|since|could|can)|\s+(?:not|and not|rather than|instead|please|because|since|right|you know|though)\b/iu
const NO_VALUE =
  /^(?:i|we|he|she|they|there|not|wrong|too|so|very|right|correct|incorrect|false|true|still|also|really|just|what|how|why|who|where|when|that|because|in|on|at|with|without|as|like|a|an|more|less|longer|shorter|better|worse|hard|easy|bit|much|good|bad|nice|great|fine|ok|okay|all|no|your|my|mine|me|you|it|this|these|those|the (?:wrong|same|other|opposite|point|way|problem|case|thing|one)|something|nothing|\w+(?:er|ly|ing))\b/iu
const ABOUT_FORM = /\b(?:words?|sentences?|lines?|paragraphs?|lists?|bold|plain|detail\w*|format\w*)\b/iu
const VALUE = /\d|^\p{Lu}|"|“|\p{Lu}\p{L}+/u
const NUMBERS =
  /\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half)\b/iu

/**
 * `text` as the person wrote it. `topic`: lower-case words of the request and the answer, from which a value may be
 * taken. Null if no value is said.
 */
export const rightAnswer = (text: string, topic: ReadonlySet<string>): string | null => {
  for (const sentence of text.split(/(?<=[!?\n])|(?<=\.)(?=\s)/u)) {
    for (const { pattern, sure } of FORMS) {
      for (
        let rest = sentence, match = pattern.exec(rest);
        match;
        rest = rest.slice(match.index + 1), match = pattern.exec(rest)
      ) {
        const value = valueIn(match[1] ?? '', sure, topic)
        if (value !== null) return value
      }
    }
  }
  return null
}

const valueIn = (said: string, sure: boolean, topic: ReadonlySet<string>): string | null => {
  const value = (said.split(ENDS)[0] ?? '')
    .trim()
    .replace(/^(?:(?:sorry|no|but|well|actually|hm+|i (?:think|believe))[, ]+)+/iu, '')
    .replace(/^["'“`*]+|["'”`*.,:]+$/gu, '')
    .trim()
  if (value === '' || value.length > 60 || NO_VALUE.test(value) || ABOUT_FORM.test(value)) return null
  const short = value.split(/\s+/u).length <= 3
  return sure || VALUE.test(value) || NUMBERS.test(value) || (short && topic.has(value.toLowerCase())) ? value : null
}

/** "Correct answer: Oslo.": names it, and says of the one that was given no more than that. */
export const STATES_ANSWER =
  /^\W*(?:the |your )?(?:right|correct|actual|real|true|proper|expected)(?: (?:answer|one|result|number|value|solution|name|word|total|sum))?(?: here)?\s*[:=]/iu
