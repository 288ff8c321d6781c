import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * One conversation for every interface: two parallel calls, an answer, words of displeasure, a call again, an answer, a
 * farewell. The first argument: whole or stream. `tell` prints one JSON object: what was said, what the tool was asked,
 * the ids of the answers as the library tells them.
 */
final class Said {
    static final String BASE = System.getenv("BASE");
    static final String KEY = System.getenv("KEY");
    static final List<String> USERS = List.of("Read both files.", "That was wrong.", "Good bye.");
    static final Map<String, Object> SCHEMA = Map.of(
            "type", "object",
            "properties", Map.of("path", Map.of("type", "string"), "lines", Map.of("type", "number")),
            "required", List.of("path", "lines"),
            "additionalProperties", false);

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> FILES =
            Map.of("a.txt", "It is red.", "b.txt", "It is blue.", "c.txt", "It is green.");

    final boolean stream;
    final List<String> said = new ArrayList<>();
    final List<JsonNode> asked = new ArrayList<>();
    final List<String> ids = new ArrayList<>();

    Said(String[] args) {
        stream = args.length > 0 && args[0].equals("stream");
    }

    static OpenAIClient client() {
        return OpenAIOkHttpClient.builder().baseUrl(BASE + "/v1").apiKey(KEY).maxRetries(0).build();
    }

    /** The tool; `arguments` are the JSON that the model wrote. */
    String read(String arguments) throws JsonProcessingException {
        JsonNode asking = JSON.readTree(arguments);
        asked.add(asking);
        return FILES.get(asking.get("path").asText());
    }

    void tell() throws JsonProcessingException {
        System.out.println("\n" + JSON.writeValueAsString(Map.of("said", said, "asked", asked, "ids", ids)));
    }
}
