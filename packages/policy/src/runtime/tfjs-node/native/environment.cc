// TensorFlow and CUDA take their settings from the process's environment, once, when their libraries load, and
// what a worker thread writes into process.env never gets there.
#include <cstdlib>
#include <string>
#include <node_api.h>

static bool text(napi_env env, napi_value value, std::string* out) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) return false;
  out->resize(length + 1);
  if (napi_get_value_string_utf8(env, value, &(*out)[0], length + 1, &length) != napi_ok) return false;
  out->resize(length);
  return true;
}

// (name, value) -> the value in force: the one that was there, else the given one.
static napi_value claim(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value given[2];
  std::string name, value;
  if (napi_get_cb_info(env, info, &count, given, nullptr, nullptr) != napi_ok || count != 2 ||
      !text(env, given[0], &name) || !text(env, given[1], &value) || setenv(name.c_str(), value.c_str(), 0) != 0) {
    napi_throw_type_error(env, nullptr, "claim(name, value) takes two strings");
    return nullptr;
  }
  const char* found = getenv(name.c_str());
  napi_value result;
  return napi_create_string_utf8(env, found ? found : "", NAPI_AUTO_LENGTH, &result) == napi_ok ? result : nullptr;
}

NAPI_MODULE_INIT() {
  napi_value function;
  if (napi_create_function(env, "claim", NAPI_AUTO_LENGTH, claim, nullptr, &function) != napi_ok) return nullptr;
  if (napi_set_named_property(env, exports, "claim", function) != napi_ok) return nullptr;
  return exports;
}
