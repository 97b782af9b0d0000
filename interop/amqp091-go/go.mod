module hermod.example/interop/amqp091-go

go 1.23

require github.com/rabbitmq/amqp091-go v1.16.0
