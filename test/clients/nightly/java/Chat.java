import com.openai.client.OpenAIClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionMessageToolCall;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import java.util.List;

/** openai-java, Chat Completions. */
final class Chat {
    private static final OpenAIClient CLIENT = Said.client();

    public static void main(String[] args) throws Exception {
        Said told = new Said(args);
        FunctionParameters.Builder schema = FunctionParameters.builder();
        Said.SCHEMA.forEach((name, value) -> schema.putAdditionalProperty(name, JsonValue.from(value)));
        ChatCompletionCreateParams.Builder talk = ChatCompletionCreateParams.builder()
                .model("policy")
                .addTool(ChatCompletionFunctionTool.builder()
                        .function(FunctionDefinition.builder().name("read").parameters(schema.build()).build())
                        .build());
        for (String words : Said.USERS) {
            talk.addUserMessage(words);
            while (true) {
                var completion = answer(talk.build(), told.stream);
                told.ids.add(completion.id());
                var message = completion.choices().get(0).message();
                talk.addMessage(message);
                List<ChatCompletionMessageToolCall> calls = message.toolCalls().orElse(List.of());
                if (calls.isEmpty()) {
                    told.said.add(message.content().orElseThrow());
                    break;
                }
                for (var call : calls) {
                    talk.addMessage(ChatCompletionToolMessageParam.builder()
                            .toolCallId(call.asFunction().id())
                            .content(told.read(call.asFunction().function().arguments()))
                            .build());
                }
            }
        }
        told.tell();
        CLIENT.close();
    }

    private static ChatCompletion answer(ChatCompletionCreateParams asking, boolean stream) {
        if (!stream) return CLIENT.chat().completions().create(asking);
        var whole = ChatCompletionAccumulator.create();
        try (var chunks = CLIENT.chat().completions().createStreaming(asking)) {
            chunks.stream().forEach(whole::accumulate);
        }
        return whole.chatCompletion();
    }
}
