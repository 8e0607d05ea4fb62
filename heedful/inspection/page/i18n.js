/** What the page says, in English and Korean. */

/** The languages of the page. */
export const LANGUAGES = { en: "English", ko: "한국어" };

/** @type {Record<string, [string, string]>} */
const TEXTS = {
  "region.translate": ["Translate", "번역"],
  "lead.translate": [
    "Type a sentence. Click a word of the translation to see what else the model considered.",
    "문장을 입력하세요. 번역된 단어를 누르면 모델이 고려한 다른 후보가 보입니다.",
  ],
  "lead.file": [
    "Click a word of the translation to see what else the model considered.",
    "번역된 단어를 누르면 모델이 고려한 다른 후보가 보입니다.",
  ],
  "region.attention": ["Attention", "어텐션"],
  "lead.attention": [
    "Every layer and every head: which word looked at which.",
    "층과 헤드마다 어떤 단어가 어떤 단어를 보았는지 보여 줍니다.",
  ],
  "region.worked": ["The calculation, worked through", "계산 과정 따라가기"],
  "lead.worked": [
    "Equation 1 for one word and one head, with the model's own numbers.",
    "단어 하나, 헤드 하나의 식 1을 모델의 실제 값으로 계산합니다.",
  ],
  "region.decode": ["Decoding, step by step", "단계별 디코딩"],
  "lead.decode": [
    "What was written so far, what could come next, and the beam as a tree.",
    "지금까지 생성한 단어, 다음 단어 후보, 빔 탐색 트리.",
  ],
  "region.inside": ["Inside", "내부"],
  "lead.inside": [
    "The model's card, training curves, positional encodings, the last request.",
    "모델 정보, 학습 곡선, 위치 인코딩, 마지막 요청.",
  ],
  "region.positions": ["Positional encoding", "위치 인코딩"],
  "lead.positions": [
    "Section 3.5: a wave for each pair of dimensions, so that every position has a pattern of its own.",
    "3.5절: 차원 쌍마다 파장이 다른 사인파를 써서 위치마다 고유한 패턴이 생깁니다.",
  ],
  "region.training": ["Training curves", "학습 곡선"],
  "lead.training": ["What the run wrote down on its way.", "학습하면서 기록한 값입니다."],
  source: ["Source text", "원문"],
  translation: ["Translation", "번역문"],
  placeholder: ["Type or paste a sentence …", "문장을 입력하거나 붙여 넣으세요 …"],
  from: ["From", "출발 언어"],
  to: ["To", "도착 언어"],
  detect: ["Detect", "언어 감지"],
  swap: ["Swap languages", "언어 바꾸기"],
  "no.swap": ["No model translates the other way round.", "반대 방향으로 번역하는 모델이 없습니다."],
  key: ["This server asks for a key", "이 서버에는 키가 필요합니다"],
  "key.use": ["Use", "사용"],
  samples: ["Try", "예문"],
  clear: ["Clear", "지우기"],
  copy: ["Copy", "복사"],
  copied: ["Copied.", "복사했습니다."],
  "not.copied": ["The browser does not let this page copy.", "브라우저가 복사를 허용하지 않습니다."],
  busy: ["Translating …", "번역 중 …"],
  characters: ["{n} characters", "{n}자"],
  "unsure.hint": [
    "Dotted: the model was less than 70 % sure. Shades: where the word looked.",
    "점선: 모델의 확신도가 70 % 미만. 음영: 그 단어가 본 곳.",
  ],
  "unsure.alone": ["Dotted: the model was less than 70 % sure.", "점선: 모델의 확신도가 70 % 미만."],
  unanswered: ["The server does not answer.", "서버가 응답하지 않습니다."],
  again: ["Try again", "다시 시도"],
  divided: [
    "Each sentence was translated by itself. Choose one to look inside.",
    "문장마다 따로 번역했습니다. 문장을 고르면 내부를 볼 수 있습니다.",
  ],
  same: ["The text is in that language already.", "이미 도착 언어로 쓰인 텍스트입니다."],
  sentences: ["Sentences", "문장"],
  "sentences.note": [
    "choose one to look inside; choose it again, or press Esc, to leave it",
    "문장을 고르면 내부를 볼 수 있습니다. 다시 누르거나 Esc를 누르면 전체로 돌아갑니다",
  ],
  alternatives: ["Alternatives", "다른 번역"],
  "alternatives.note": ["by score: log-probability over length penalty", "점수순: 로그 확률 ÷ 길이 페널티"],
  "score.title": ["log p / ((5 + length) / 6)^α", "log p / ((5 + 길이) / 6)^α"],
  choices: ["The model's choices here", "이 자리의 후보"],
  "choices.choose": ["Choose one, and the rest is decoded anew.", "후보를 고르면 그 뒤를 다시 번역합니다."],
  "choices.pieces": ["(first piece of the word)", "(단어의 첫 조각)"],
  end: ["⟨end⟩", "⟨끝⟩"],
  kind: ["Kind of attention", "어텐션 종류"],
  "kind.cross": ["Cross", "교차"],
  "kind.encoder": ["Encoder self", "인코더 셀프"],
  "kind.decoder": ["Decoder self", "디코더 셀프"],
  "about.cross": ["Each word being written looks at the source sentence.", "생성 중인 단어가 원문을 봅니다."],
  "about.encoder": [
    "Each source word looks at all source words, itself included.",
    "원문의 각 단어가 자신을 포함한 모든 원문 단어를 봅니다.",
  ],
  "about.decoder": [
    "Each word being written looks at the words already written; <s> stands before the first.",
    "생성 중인 단어가 이미 생성한 단어들을 봅니다. <s>는 첫 단어의 앞자리입니다.",
  ],
  "axes.cross": ["written ↓ source →", "번역 ↓ 원문 →"],
  "axes.encoder": ["looks ↓ seen →", "보는 ↓ 보이는 →"],
  "axes.decoder": ["writing ↓ written →", "생성 중 ↓ 생성됨 →"],
  "rows.cross": ["being written", "생성 중인 단어"],
  "columns.cross": ["source", "원문"],
  "rows.encoder": ["looks", "보는 단어"],
  "columns.encoder": ["is looked at", "보이는 단어"],
  "rows.decoder": ["being written", "생성 중인 단어"],
  "columns.decoder": ["already written", "이미 생성한 단어"],
  caveat: [
    "Attention shows where a layer read, not why: what it made of what it read lies in the values, the feed-forward layers and all the other heads.",
    "어텐션은 층이 어디를 읽었는지만 보여 주고, 왜 읽었는지는 알려 주지 않습니다. 읽은 정보를 어떻게 썼는지는 밸류 벡터와 피드포워드 층, 다른 헤드들까지 보아야 알 수 있습니다.",
  ],
  "attention.none": [
    "This model has no attention (model.family = {family}), so there are no weights to show.",
    "이 모델(model.family = {family})에는 어텐션이 없으므로 보여 줄 가중치가 없습니다.",
  ],
  heads: ["Layers and heads", "층과 헤드"],
  "heads.corpus": [
    "Names by how often a head's largest weight falls there, on validation sentences of the built-in corpus. Shift-click adds a head.",
    "내장 말뭉치의 검증 문장에서 헤드의 최대 가중치가 가장 자주 놓인 곳을 이름으로 붙였습니다. Shift+클릭으로 헤드를 추가합니다.",
  ],
  "heads.sentence": [
    "Names by position, on this sentence alone. Shift-click adds a head.",
    "이 문장에서의 위치만 보고 붙인 이름입니다. Shift+클릭으로 헤드를 추가합니다.",
  ],
  layer: ["Layer {n}", "{n}층"],
  head: ["Head {n}", "헤드 {n}"],
  mean: ["mean", "평균"],
  "layer.head": ["layer.head", "층.헤드"],
  label: ["name", "이름"],
  entropy: ["width", "분산도"],
  "head.column": ["head", "헤드"],
  weight: ["weight", "가중치"],
  "role.itself": ["itself", "자신"],
  "role.previous": ["previous", "앞 단어"],
  "role.next": ["next", "뒤 단어"],
  "role.start": ["start", "문장 시작"],
  "role.end": ["end", "문장 끝"],
  "role.aligned": ["aligned", "대응 단어"],
  "role.adjective→noun": ["adj.→noun", "형용사→명사"],
  "role.verb→subject": ["verb→subj.", "동사→주어"],
  "role.pronoun→noun": ["pron.→noun", "대명사→명사"],
  "role.word": ["“{word}”", "“{word}”"],
  "role.spread": ["spread", "분산"],
  "role.mixed": ["mixed", "혼합"],
  view: ["View", "보기"],
  "view.matrix": ["Map", "히트맵"],
  "view.lines": ["Lines", "선"],
  unit: ["Unit", "단위"],
  "unit.words": ["Words", "단어"],
  "unit.pieces": ["Pieces", "조각"],
  scale: ["Scale", "스케일"],
  "scale.linear": ["linear", "선형"],
  ramp: ["Colours", "색상"],
  "ramp.hue": ["blue", "파랑"],
  hide: ["Hide </s> and punctuation", "</s>와 문장 부호 숨기기"],
  word: ["Word", "단어"],
  "word.all": ["all", "전체"],
  title: ["{kind}, layer {layer}, heads: {heads}", "{kind}, {layer}층, 헤드: {heads}"],
  masked: ["masked", "가려짐"],
  reading: ["“{row}” looked at “{column}” with {share}", "“{row}” → “{column}”: {share}"],
  "reading.masked": [
    "“{row}” may not look at “{column}”: it is not written yet (causal mask, −∞)",
    "“{row}”은(는) 아직 생성되지 않은 “{column}”을(를) 볼 수 없습니다 (인과 마스크, −∞)",
  ],
  "matrix.hint": [
    "Point at a cell, or walk with the arrow keys. Numbers are percent.",
    "칸에 마우스를 올리거나 화살표 키로 이동하세요. 숫자 단위는 %입니다.",
  ],
  "note.causal": [
    "Hatched: the causal mask. What is not written yet cannot be looked at.",
    "빗금: 인과 마스크. 아직 생성하지 않은 단어는 볼 수 없습니다.",
  ],
  "note.padding": [
    "Nothing is masked here: sentences lie packed, so that there is no padding.",
    "여기에는 마스크가 없습니다. 문장들을 패딩 없이 이어 붙이기 때문입니다.",
  ],
  "note.hidden": [
    "Special tokens and punctuation are hidden, and what is left of each row was scaled up to 100 %.",
    "특수 토큰과 문장 부호를 숨기고, 각 행의 나머지 합이 100 %가 되게 정규화했습니다.",
  ],
  "note.words": [
    "Words: the sum over the pieces looked at, the mean over the pieces that look.",
    "단어 단위: 보이는 쪽 조각은 더하고, 보는 쪽 조각은 평균을 냅니다.",
  ],
  "lines.note": [
    "Lines hold 90 % of each word's weight; the rest is left out.",
    "단어마다 가중치의 90 %까지 선으로 그리고 나머지는 생략합니다.",
  ],
  "lines.most": [
    "The {n} strongest lines of each word; choose a word to see 90 % of its weight.",
    "단어마다 가중치가 가장 큰 선 {n}개만 그립니다. 단어를 고르면 가중치의 90 %까지 보입니다.",
  ],
  nothing: ["Translate a sentence first.", "먼저 문장을 번역하세요."],
  "nothing.several": ["Choose a sentence first.", "먼저 문장을 고르세요."],
  fetching: [
    "Not sent with a text this long; asking for this layer …",
    "텍스트가 길어 이 층은 따로 불러오는 중입니다 …",
  ],
  "table.show": ["View as table", "표로 보기"],
  "table.hide": ["Hide table", "표 숨기기"],
  step: ["Step", "스텝"],
  "step.of": ["step {n} of {all}", "스텝 {n}/{all}"],
  back: ["One step back", "이전 스텝"],
  forward: ["One step on", "다음 스텝"],
  play: ["Play", "재생"],
  pause: ["Pause", "일시정지"],
  next: ["What could come next", "다음 후보"],
  looks: ["Where it looks", "보는 곳"],
  "looks.note": [
    "Cross-attention of the last layer, mean of its heads, in percent.",
    "마지막 층 교차 어텐션의 헤드 평균(%).",
  ],
  cumulative: ["p = {p} · log p of all so far {total}", "p = {p} · 누적 log p {total}"],
  piece: ["piece", "조각"],
  place: ["place", "순위"],
  score: ["score", "점수"],
  tree: ["The beam", "빔"],
  "tree.hint": ["Point at a node, or walk with the arrow keys.", "노드에 마우스를 올리거나 화살표 키로 이동하세요."],
  "tree.caption": [
    "Beam {width}, length penalty α = {alpha}. Bold: the winner. Pale: given up. ⚑: finished, with its score.",
    "빔 {width}, 길이 페널티 α = {alpha}. 굵게: 최종 선택. 흐리게: 탈락. ⚑: 완성된 후보와 점수.",
  ],
  "tree.best": ["the winner", "최종 선택"],
  "tree.pruned": ["given up", "탈락"],
  "tree.done": ["finished, score {score}", "완성, 점수 {score}"],
  examples: ["Training examples of this pair", "이 문장 쌍에서 나오는 학습 예제"],
  "examples.note": [
    "One sentence is as many examples as it has words: each prefix, the next word, and its probability.",
    "한 문장은 단어 수만큼의 학습 예제가 됩니다: 앞부분, 다음 단어, 그 확률.",
  ],
  prefix: ["prefix", "앞부분"],
  "next.word": ["next word", "다음 단어"],
  "worked.best": [
    "This file holds the numbers of the best translation alone; choose it above.",
    "이 파일에는 1순위 번역의 값만 들어 있습니다. 위에서 1순위 번역을 고르세요.",
  ],
  "worked.dot": [
    "The query at “{word}” times the key of every word, divided by √{d}; then the softmax makes shares of it.",
    "“{word}”의 쿼리와 각 단어의 키를 내적해 √{d}로 나눈 뒤 소프트맥스를 적용하면 가중치가 됩니다.",
  ],
  "worked.table": ["Scores and weights", "점수와 가중치"],
  "worked.mask": [", mask", ", 마스크"],
  "worked.sum": [
    "The values of all words, each times its share, added up: the output of this head.",
    "각 단어의 밸류 벡터에 가중치를 곱해 더하면 이 헤드의 출력이 됩니다.",
  ],
  "worked.output": [
    "The outputs of all {heads} heads side by side, times W_O.",
    "헤드 {heads}개의 출력을 이어 붙이고 W_O를 곱합니다.",
  ],
  "worked.residual": [
    "The residual: the vector at “{word}” as it came in, and with this added to it.",
    "잔차 연결: “{word}”의 입력 벡터와, 여기에 출력을 더한 결과입니다.",
  ],
  "worked.norm": [
    "LayerNorm: minus the mean {mean}, divided by the deviation {deviation}, times gain plus shift.",
    "LayerNorm: 평균 {mean}을 빼고 표준편차 {deviation}로 나눈 뒤 γ를 곱하고 β를 더합니다.",
  ],
  keep: ["Keep this word to compare", "비교용으로 이 단어 저장"],
  moved: ["How far the vector turned", "벡터의 회전각"],
  "moved.unit": ["degrees", "도"],
  "moved.total": ["from the embedding", "임베딩 기준"],
  "moved.step": ["in this layer", "이 층에서"],
  alike: ["Likeness to {word}", "{word}와의 유사도"],
  "layer.axis": ["after layer", "통과한 층 수"],
  "moved.note": [
    "The same word ends elsewhere in another sentence. Keep a word, choose another or translate another sentence, and compare: Eiffel Tower, miniature tower.",
    "같은 단어라도 문장에 따라 벡터가 달라집니다. 단어를 저장한 뒤 다른 단어를 고르거나 다른 문장을 번역해 비교해 보세요: Eiffel Tower, miniature tower.",
  ],
  card: ["Model card", "모델 정보"],
  "card.name": ["name", "이름"],
  "card.training": ["How it was trained", "학습 기록"],
  "card.scores": ["How good it is", "평가 결과"],
  "card.date": ["date", "날짜"],
  "card.code": ["heedful, commit", "heedful, 커밋"],
  "card.machine": ["machine, cores", "장비, 코어"],
  "card.steps": ["steps done", "학습한 스텝 수"],
  "card.time": ["time", "걸린 시간"],
  "card.speed": ["target tokens", "타깃 토큰"],
  "card.gpu": ["GPU hours", "GPU 시간"],
  "card.seed": ["seed, precision", "시드, 정밀도"],
  "card.averaged": ["average of the steps", "평균한 스텝"],
  "card.data": ["training text (lines)", "학습 데이터 (줄)"],
  "card.weights": ["SHA-256 of the weights", "가중치 SHA-256"],
  "card.set": ["test set", "테스트 세트"],
  "card.lines": ["lines", "줄 수"],
  "card.search": ["engine, beam, α", "엔진, 빔, α"],
  "card.signature": ["signature", "시그니처"],
  languages: ["languages", "언어"],
  setting: ["setting", "설정"],
  value: ["value", "값"],
  curves: ["Training", "학습"],
  "positions.title": ["Positions", "위치"],
  "positions.learned": [
    "This model has learned a vector for each position (table 3, row E); it has no sinusoids.",
    "이 모델은 사인파 대신 학습된 위치 임베딩을 씁니다(표 3의 E행).",
  ],
  "positions.none": [
    "This model does not use the sinusoids of section 3.5.",
    "이 모델은 3.5절의 사인파 위치 인코딩을 쓰지 않습니다.",
  ],
  request: ["The last request", "마지막 요청"],
  positions: ["Positional encoding", "위치 인코딩"],
  "positions.axes": ["{n} positions ↓ × {d} dimensions →", "위치 {n} ↓ × 차원 {d} →"],
  pairs: ["Position {a} against {b}", "위치 {a}와(과) {b} 비교"],
  "pairs.note": ["over dimensions, the sines", "차원별, 사인 성분"],
  dimensions: ["Dimension {which}", "차원 {which}"],
  "dimensions.note": ["over positions; one turn is {turn} long", "위치별, 주기 {turn}"],
  similarity: ["Similarity by distance", "거리에 따른 유사도"],
  position: ["position", "위치"],
  dimension: ["dimension", "차원"],
  distance: ["distance k", "거리 k"],
  training: ["training", "학습"],
  validation: ["validation", "검증"],
  loss: ["Loss", "손실"],
  "loss.note": ["nats per token; training with label smoothing", "토큰당 nat, 학습 손실은 레이블 스무딩 포함"],
  perplexity: ["Perplexity", "퍼플렉시티"],
  rate: ["Learning rate", "학습률"],
  "rate.note": ["warm-up {warmup} steps, then step^−½", "워밍업 {warmup}스텝, 이후 step^−½"],
  "rate.cooled": [
    "warm-up {warmup} steps, then step^−½; down to nothing in the last {cooldown}",
    "워밍업 {warmup}스텝, 이후 step^−½, 마지막 {cooldown}스텝 동안 0까지 감소",
  ],
};

/** Refusals in Korean, by status and words; in English the server's own words are shown. @type {[RegExp, string][]} */
const REFUSALS = [
  [/^400 .*request \((\d+)\) exceeds text limit \((\d+)\)/, "텍스트가 너무 깁니다({1}자). 한 번에 {2}자까지 번역할 수 있습니다."],
  [
    /^400 .*more than (\d+) pieces, and is translated in parts/,
    "문장이 너무 길어 내부를 볼 수 없습니다. 조각이 {1}개를 넘어 나누어 번역했습니다.",
  ],
  [/^400 .*the sentence is blank/, "문장이 비어 있습니다."],
  [/^400 (\S+) to (\S+) is not supported/, "지원하지 않는 번역 방향입니다: {1} → {2}."],
  [/^400 (\S+) is not supported/, "지원하지 않는 언어입니다: {1}."],
  [/^40[13] /, "API 키가 올바르지 않습니다."],
  [/^408 /, "요청이 시간을 초과해 서버가 연결을 끊었습니다."],
  [/^413 .*limit of (\d+) bytes/, "요청이 너무 큽니다. 최대 {1}바이트까지 보낼 수 있습니다."],
  [/^429 .*?(\d+) per 1 minute/, "요청이 너무 많습니다. 1분에 {1}번까지 보낼 수 있습니다."],
  [/^429 /, "요청이 너무 많습니다. 잠시 후 다시 시도하세요."],
  [/^500 .*model cannot be used/, "모델을 사용할 수 없습니다. 자세한 내용은 서버 로그를 확인하세요."],
  [/^500 /, "서버 내부 오류가 발생했습니다."],
  [/^501 /, "이 서버에서는 모델 내부를 볼 수 없습니다."],
  [/^503 .*shutting down/, "서버가 곧 종료됩니다."],
  [/^503 .*too many texts are waiting/, "서버가 혼잡합니다. 대기 중인 요청이 너무 많습니다."],
  [/^50[234] /, "서버가 응답할 수 없는 상태입니다. 잠시 후 다시 시도하세요."],
];

let column = 0;

/** Speak this language from now on. */
export function chooseLanguage(code) {
  column = code === "ko" ? 1 : 0;
}

/** The text of a key, with {names} filled in. */
export function t(key, values = {}) {
  const text = TEXTS[key]?.[column] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** What a server's refusal says; one that we do not know stays as it is. */
export function refusal(status, text) {
  for (const [pattern, ours] of column ? REFUSALS : []) {
    const found = pattern.exec(`${status} ${text}`);
    if (found) return ours.replace(/\{(\d)\}/g, (_, group) => found[Number(group)]);
  }
  return text;
}

/** A language's name in the language of the page. */
export function languageName(code, otherwise = code) {
  try {
    return new Intl.DisplayNames([column ? "ko" : "en"], { type: "language" }).of(code) ?? otherwise;
  } catch {
    return otherwise;
  }
}
