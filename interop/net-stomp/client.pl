# The tutorials' patterns by STOMP destinations with Net::Stomp (which speaks STOMP 1.0), each asserting what it gets.
use strict;
use warnings;
use Net::Stomp;
use Net::Stomp::Frame;

my $WAIT   = 10;     # seconds for anything that must arrive
my $QUIET  = 0.3;    # seconds in which nothing may arrive
my $STORED = '/queue/interop.net-stomp.stored';

sub peer {
    my $peer = Net::Stomp->new({ hostname => $ENV{STOMP_HOST}, port => $ENV{STOMP_PORT}, reconnect_on_fork => 0 });
    my $answer = $peer->connect({ login => 'guest', passcode => 'guest' });
    die 'no CONNECTED frame: ' . $answer->command . "\n" if $answer->command ne 'CONNECTED';
    return $peer;
}

sub unique { return "interop.net-stomp.$_[0].$$." . int(rand(1e9)) }

sub expect {
    my ($found, $expected, $what) = @_;
    $found = 'nothing' unless defined $found;
    die "$what: expected '$expected', found '$found'\n" if $found ne $expected;
}

# The next message, or nothing after some seconds.
sub next_frame {
    my ($peer, $seconds) = @_;
    return $peer->receive_frame({ timeout => $seconds // $WAIT });
}

sub body { my ($frame) = @_; return defined $frame ? $frame->body : undef }

# Sends and waits for the receipt.
sub send_safely {
    my ($peer, %headers) = @_;
    $peer->send_with_receipt({ %headers, timeout => $WAIT }) or die "no receipt for a message to $headers{destination}\n";
}

# A worker with a prefetch of one gets the next task after it has acknowledged the one before.
sub work_queue {
    my $queue = '/queue/' . unique('tasks');
    my ($sender, $worker) = (peer(), peer());
    $worker->subscribe({ destination => $queue, id => 'w', ack => 'client', 'prefetch-count' => 1 });
    send_safely($sender, destination => $queue, body => "task $_") for 0 .. 4;
    for my $number (0 .. 4) {
        my $frame = next_frame($worker);
        expect(body($frame), "task $number", 'task');
        expect(body(next_frame($worker, $QUIET / 3)), 'nothing', 'before the acknowledgement');
        $worker->ack({ frame => $frame });
    }
    $sender->disconnect;
    $worker->disconnect;
}

# Every subscriber of a topic gets its own copy.
sub publish_subscribe {
    my $topic = '/topic/' . unique('logs');
    my @peers = (peer(), peer());
    $_->subscribe({ destination => $topic, id => 's', ack => 'auto', receipt => 'subscribed' }) for @peers;
    expect(next_frame($_)->command, 'RECEIPT', 'subscription') for @peers;
    $peers[0]->send({ destination => $topic, body => 'hello all' });
    expect(body(next_frame($_)), 'hello all', 'subscriber') for @peers;
    $_->disconnect for @peers;
}

# What is sent in a transaction arrives after its commit, or not at all.
sub transactions {
    my $queue = '/queue/' . unique('transactions');
    my $peer  = peer();
    $peer->subscribe({ destination => $queue, id => 't', ack => 'auto' });
    for my $end ('ABORT', 'COMMIT') {
        my %in = (transaction => $end);
        $peer->send_frame(Net::Stomp::Frame->new({ command => 'BEGIN', headers => {%in} }));
        $peer->send({ destination => $queue, body => "$end $_", %in }) for 1 .. 2;
        expect(body(next_frame($peer, $QUIET)), 'nothing', "before $end");
        $peer->send_frame(Net::Stomp::Frame->new({ command => $end, headers => {%in} }));
    }
    expect(body(next_frame($peer)), "COMMIT $_", 'committed') for 1 .. 2;
    expect(body(next_frame($peer, $QUIET)), 'nothing', 'aborted');
    $peer->disconnect;
}

# Bodies with any byte survive the way when their length is given.
sub bodies {
    my $queue = '/queue/' . unique('bodies');
    my $peer  = peer();
    $peer->subscribe({ destination => $queue, id => 'b', ack => 'auto' });
    for my $body ('', "with \0 and \xff", 'x' x 300_000) {
        $peer->send({ destination => $queue, body => $body, bytes_message => 1 });
        expect(body(next_frame($peer)), $body, 'body');
    }
    $peer->disconnect;
}

sub store {
    my $peer = peer();
    $peer->subscribe({ destination => $STORED, id => 'old', ack => 'auto' });
    1 while next_frame($peer, $QUIET);    # what an earlier run left behind
    $peer->unsubscribe({ destination => $STORED, id => 'old' });
    send_safely($peer, destination => $STORED, body => "stored $_", persistent => 'true') for 0 .. 9;
    $peer->disconnect;
}

sub fetch {
    my $peer = peer();
    $peer->subscribe({ destination => $STORED, id => 'f', ack => 'client' });
    for my $number (0 .. 9) {
        my $frame = next_frame($peer);
        expect(body($frame), "stored $number", 'stored message');
        expect($frame->headers->{redelivered} // 'false', 'false', 'redelivered');
        $peer->ack({ frame => $frame });
    }
    $peer->disconnect;
}

my %phases = (
    patterns => [[work_queue => \&work_queue], [publish_subscribe => \&publish_subscribe],
                 [transactions => \&transactions], [bodies => \&bodies]],
    extensions => [],
    store => [[store => \&store]],
    fetch => [[fetch => \&fetch]],
);
$| = 1;
for my $step (@{ $phases{ $ARGV[0] // '' } or die "usage: client.pl patterns|store|fetch\n" }) {
    $step->[1]->();
    print "ok $step->[0]\n";
}
