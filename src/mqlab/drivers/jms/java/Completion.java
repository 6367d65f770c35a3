package mqlab.jms;

/** The end of a call, identified by its ticket, with a result or an error. */
final class Completion {
    final long ticket;
    final Object result;
    final String error;

    Completion(long ticket, Object result, Throwable error) {
        this.ticket = ticket;
        this.result = result;
        this.error = error == null ? null : describe(error);
    }

    /** Describes the error and its causes: the outer one often says only that there is a cause. */
    static String describe(Throwable error) {
        String text = text(error);
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            if (!text.contains(text(cause))) {
                text += " (" + text(cause) + ")";
            }
        }
        return text;
    }

    private static String text(Throwable error) {
        String message = error.getMessage();
        String name = error.getClass().getSimpleName();
        return message == null || message.isBlank() ? name : message.strip().replaceAll("\\s*\\n\\s*", "; ");
    }
}
