//! The last frame that a connection handled. The head of each frame is copied when it is taken. Its
//! name is looked up only when it is shown.

use crate::codec::{Frame, FrameKind, Method};

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last {
    kind: Option<FrameKind>,
    /// Numbers of class and method, if it is a method.
    head: [u8; 4],
}

impl Last {
    #[inline]
    pub(super) fn of(frame: Frame<'_>) -> Self {
        Self { kind: Some(frame.kind), head: frame.payload.first_chunk().copied().unwrap_or_default() }
    }

    /// The method's name in the specification, or the kind of frame; empty before the first.
    pub(super) fn name(self) -> &'static str {
        match self.kind {
            None => "",
            Some(FrameKind::Method) => {
                let [class, method] =
                    [[self.head[0], self.head[1]], [self.head[2], self.head[3]]].map(u16::from_be_bytes);
                Method::name_of(class, method).unwrap_or("unknown method")
            }
            Some(FrameKind::Header) => "content header",
            Some(FrameKind::Body) => "body",
            Some(FrameKind::Heartbeat) => "heartbeat",
        }
    }
}
