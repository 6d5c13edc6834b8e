from bussrv.plugin import WireFormat

stomp = WireFormat(
    "stomp",
    module="bussrv_stomp.protocol.StompProtocol",
    default_endpoint="tcp:61613:interface=127.0.0.1",
    summary="STOMP 1.2: clients of message brokers",
)
