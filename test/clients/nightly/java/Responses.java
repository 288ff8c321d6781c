import com.openai.client.OpenAIClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ResponseAccumulator;
import com.openai.models.responses.EasyInputMessage;
import com.openai.models.responses.FunctionTool;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseFunctionToolCall;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseOutputText;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** openai-java, Responses: each request names the one before. */
final class Responses {
    private static final OpenAIClient CLIENT = Said.client();

    public static void main(String[] args) throws Exception {
        Said told = new Said(args);
        FunctionTool.Parameters.Builder schema = FunctionTool.Parameters.builder();
        Said.SCHEMA.forEach((name, value) -> schema.putAdditionalProperty(name, JsonValue.from(value)));
        ResponseCreateParams.Builder asking = ResponseCreateParams.builder()
                .model("policy")
                .addTool(FunctionTool.builder().name("read").parameters(schema.build()).strict(false).build());
        for (String words : Said.USERS) {
            List<ResponseInputItem> items = List.of(ResponseInputItem.ofEasyInputMessage(
                    EasyInputMessage.builder().role(EasyInputMessage.Role.USER).content(words).build()));
            while (true) {
                var response = answer(asking.inputOfResponse(items).build(), told.stream);
                told.ids.add(response.id());
                asking.previousResponseId(response.id());
                items = new ArrayList<>();
                for (var item : response.output()) {
                    if (item.functionCall().isPresent()) items.add(read(told, item.functionCall().get()));
                }
                if (items.isEmpty()) {
                    told.said.add(textOf(response));
                    break;
                }
            }
        }
        told.tell();
        CLIENT.close();
    }

    private static Response answer(ResponseCreateParams asking, boolean stream) {
        if (!stream) return CLIENT.responses().create(asking);
        var whole = ResponseAccumulator.create();
        try (var events = CLIENT.responses().createStreaming(asking)) {
            events.stream().forEach(whole::accumulate);
        }
        return whole.response();
    }

    private static ResponseInputItem read(Said told, ResponseFunctionToolCall call) throws Exception {
        return ResponseInputItem.ofFunctionCallOutput(ResponseInputItem.FunctionCallOutput.builder()
                .callId(call.callId())
                .output(told.read(call.arguments()))
                .build());
    }

    private static String textOf(Response response) {
        return response.output().stream()
                .flatMap(item -> item.message().stream())
                .flatMap(message -> message.content().stream())
                .flatMap(content -> content.outputText().stream())
                .map(ResponseOutputText::text)
                .collect(Collectors.joining());
    }
}
