// Runs the script of the report page, which is embedded compressed, as its data are. The page's content security policy names the
// hashes of both.
import { unpackText } from "./unpack";

void unpackText("script").then((text) => {
  const script = document.createElement("script");
  script.textContent = text;
  document.body.append(script);
});
