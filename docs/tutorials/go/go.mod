module hermod.example/tutorials

go 1.23

require github.com/rabbitmq/amqp091-go v1.16.0
