"""Toolfold's own core behind the driver protocol over stdio: every verb, each by the driver that is used in process.

    python piped.py [FAULT]

With a fault it is a driver that sends something else in place of its response to an activation.
"""

import json
import sys
import time
from typing import Any

from toolfold_specs.driver import Operation, Setup
from verification.library.driver import CoreDriver

driver = CoreDriver()


def respond(verb: str, arguments: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    match verb:
        case "hello":
            return {"protocol": 1, "capabilities": sorted(driver.capabilities)}
        case "configure":
            return driver.configure(Setup.from_json(arguments["setup"])).to_json()
        case "start":
            return {"ticket": driver.start(Operation.from_json(arguments["operation"]))}
        case "blocked":
            return {"blocked": driver.blocked()}
        case "release" | "cancel":
            getattr(driver, verb)(**arguments)
            return {}
        case "finish":
            return driver.finish(arguments["ticket"]).to_json()
        case _:
            return driver.perform(Operation.from_json(request)).to_json()


def faulty(fault: str, response: dict[str, Any], number: int) -> str:
    match fault:
        case "die":
            sys.exit("out of memory")
        case "hang":
            time.sleep(60)
        case "second line":
            return f"{json.dumps(response)}\n{json.dumps(response)}"
        case "other id":
            response["id"] = 0
        case "":
            response["id"] = number
        case "garbage":
            return "activated a"
        case "list":
            return "[]"
        case "wrong type":
            response["active"] = "a"
        case "unknown member":
            response["actvie"] = response.pop("active")
        case "not supported":
            response = {"error": "NotSupported"}
        case _:
            pass
    return json.dumps(response)


for line in sys.stdin:
    request = json.loads(line)
    number = request.pop("id")
    response = respond(request["verb"], request.get("arguments", {}), request)
    fault = sys.argv[1] if len(sys.argv) > 1 and request["verb"] == "activate" else ""
    print(faulty(fault, response, number), flush=True)
